"""The next actions for a pod with claims from templates."""

from typing import Any

import pytest

from controller.manager.actions import Requeue
from controller.provisioning.creation_failure import CreationFailure
from controller.replica_claims.decide import (
    Action,
    CreateClaim,
    ReleasePod,
    ReportWait,
    WithdrawPending,
    decide,
)
from controller.replica_claims.keys import ReplicaPodKey
from controller.replica_claims.view import ClaimState, ReplicaClaim, ReplicaPodView
from shared.api.core import Pod
from tests.builders.cluster import meta

POD = Pod(metadata=meta("train-0", namespace="team"))
READY = ReplicaClaim("ready-train-0", {}, ClaimState.READY)
MISSING = ReplicaClaim("data-train-0", {})
LEAVING = ReplicaClaim("old-train-0", {}, ClaimState.LEAVING)
LOOK_AGAIN = Requeue(60.0)


def next_steps(*claims: ReplicaClaim, gated: bool = True, **fields: Any) -> list[Action]:
    return decide(ReplicaPodView(ReplicaPodKey("team", "train-0"), POD, gated=gated, claims=claims, **fields))


def refused(retry_s: float | None) -> ReplicaClaim:
    return ReplicaClaim("data-train-0", {}, failure=CreationFailure("exceeded quota", retry_s))


def reported(actions: list[Action]) -> tuple[str, bool]:
    (report,) = (action for action in actions if isinstance(action, ReportWait))
    return report.reason, report.warn


def test_a_pod_is_released_once_all_its_claims_exist() -> None:
    assert next_steps(READY) == [ReleasePod(POD), LOOK_AGAIN]
    assert next_steps(READY, gated=False) == []
    assert not any(isinstance(action, ReleasePod) for action in next_steps(READY, MISSING))
    assert not any(isinstance(action, ReleasePod) for action in next_steps(READY, LEAVING))


def test_missing_claims_are_created_and_reported_without_a_warning() -> None:
    actions = next_steps(READY, MISSING)
    assert [a.claim for a in actions if isinstance(a, CreateClaim)] == [MISSING]
    assert (reported(actions), actions[-1]) == (("WaitingForClaims", False), LOOK_AGAIN)


def test_a_pod_waits_until_a_claim_being_deleted_is_gone() -> None:
    actions = next_steps(LEAVING)
    assert (reported(actions), actions[-1]) == (("ClaimTerminating", True), LOOK_AGAIN)
    assert [a.claim for a in next_steps(LEAVING, MISSING) if isinstance(a, CreateClaim)] == [MISSING]


def test_a_refused_claim_is_requested_again_only_when_it_is_due() -> None:
    actions = next_steps(refused(12.5), LEAVING)
    assert not any(isinstance(action, CreateClaim) for action in actions)
    assert (reported(actions), actions[-1]) == (("ClaimRefused", True), Requeue(12.5))
    due = next_steps(refused(0.0))
    assert [a.claim.name for a in due if isinstance(a, CreateClaim)] == ["data-train-0"]
    assert (reported(due), due[-1]) == (("ClaimRefused", True), LOOK_AGAIN)


def test_a_claim_that_the_queue_retries_is_reported_as_delayed() -> None:
    actions = next_steps(refused(None))
    assert [a.claim.name for a in actions if isinstance(a, CreateClaim)] == ["data-train-0"]
    assert (reported(actions), actions[-1]) == (("ClaimDelayed", True), LOOK_AGAIN)


@pytest.mark.parametrize(
    ("holder", "message"), [("Job team/other", "belongs to Job team/other"), ("", "belongs to no workload")]
)
def test_a_claim_of_another_workload_is_reported_and_blocks_the_pod(holder: str, message: str) -> None:
    actions = next_steps(MISSING, ReplicaClaim("data-train-0", {}, ClaimState.TAKEN, holder=holder))
    withdraw, report, again = actions
    assert (withdraw, again) == (WithdrawPending(), LOOK_AGAIN)
    assert isinstance(report, ReportWait)
    assert (report.reason, message in report.message) == ("NameConflict", True)


def test_the_reason_why_a_pod_cannot_have_claims_is_reported() -> None:
    actions = next_steps(MISSING, problem=("InvalidTemplates", "write a list"))
    assert actions == [WithdrawPending(), ReportWait(POD, "InvalidTemplates", "write a list"), LOOK_AGAIN]


def test_no_claim_is_requested_for_a_queued_or_deleted_pod() -> None:
    assert next_steps(MISSING, queued=True) == [WithdrawPending()]
    assert decide(ReplicaPodView(ReplicaPodKey("team", "train-0"), claims=(MISSING,))) == [WithdrawPending()]
