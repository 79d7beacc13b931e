"""The status of a TrainingJob."""

from typing import Any

import msgspec
import pytest

from controller.trainingjobs.decide import WriteJobStatus
from controller.trainingjobs.outcome import JobOutcome
from controller.trainingjobs.report import is_problem, status_of
from controller.trainingjobs.view import QueueState, TrainingJobView
from shared.api.meta import Condition, condition_of
from shared.api.training_job import ReplicaStatus, RunPolicy, TrainingJobStatus
from shared.kube.errors import Refused
from tests.builders.training_jobs import (
    EARLIER,
    NOW,
    STAMP,
    Observed,
    claim,
    owned_by,
    pod,
    replica_spec,
    training_job,
)

WORKERS: dict[str, Any] = {"Worker": replica_spec(2)}
CLAIMS = (claim("data-tj-worker-0"), claim("data-tj-worker-1"))


def ready_of(status: TrainingJobStatus) -> Condition:
    found = condition_of(status.conditions, "Ready")
    assert found is not None
    return found


def truth_of(status: TrainingJobStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions}


def written(view: TrainingJobView, outcome: JobOutcome | None = None) -> TrainingJobStatus:
    return status_of(view, WriteJobStatus(outcome), NOW)


def after(
    status: TrainingJobStatus, *found: Any, outcome: JobOutcome | None = None, **fields: Any
) -> TrainingJobStatus:
    """Return the status that follows another one."""
    return written(Observed(training_job(status, **WORKERS, **fields)).view(*CLAIMS, *found), outcome)


def test_a_job_is_ready_while_all_its_pods_run() -> None:
    found = after(TrainingJobStatus(), pod("tj-worker-0"), pod("tj-worker-1"))
    assert (ready_of(found).status, found.running, found.start_time) == ("True", "2/2", STAMP)
    assert truth_of(found)["Running"] == "True"
    assert found.replica_statuses["Worker"].active == 2


def test_a_queued_job_reports_its_position_and_what_it_waits_for() -> None:
    observed = Observed(training_job(**WORKERS))
    observed.queue = QueueState(2, 5)
    found = written(observed.view(claim("data-tj-worker-0"), pod("tj-worker-0")))
    ready = ready_of(found)
    assert (ready.status, ready.reason, found.queue_position) == ("False", "Queued", 8)
    assert (
        "1 of 2 pods run; replicas that wait: 1, claims to create: 1, the next one among the first 8" in ready.message
    )
    assert not is_problem(ready)
    assert found.replica_statuses["Worker"].waiting_for_volumes == 1


def test_pods_that_have_not_started_are_counted() -> None:
    ready = ready_of(after(TrainingJobStatus(), pod("tj-worker-0"), pod("tj-worker-1", "Pending")))
    assert (ready.reason, ready.message) == ("Starting", "1 of 2 pods run; pending: 1")


def test_a_suspended_job_has_no_start_time_until_it_is_resumed() -> None:
    suspended = after(TrainingJobStatus(start_time=EARLIER), run=RunPolicy(suspend=True))
    assert (suspended.start_time, ready_of(suspended).reason) == ("", "Suspended")
    assert truth_of(suspended)["Suspended"] == "True"
    resumed = after(suspended, pod("tj-worker-0"), pod("tj-worker-1"))
    assert (truth_of(resumed)["Suspended"], resumed.start_time) == ("False", STAMP)


def test_failed_pods_are_counted_as_restarts_until_all_run_again() -> None:
    view = Observed(training_job(**WORKERS)).view(
        *CLAIMS, pod("tj-worker-0", "Failed", code=137, restarts=1), pod("tj-worker-1")
    )
    failing = status_of(view, WriteJobStatus(None, replace=("uid-tj-worker-0",)), NOW)
    assert (failing.restarts, failing.replacing) == (2, ["uid-tj-worker-0"])
    assert truth_of(failing)["Restarting"] == "True"
    messages = {condition.type: condition.message for condition in failing.conditions}
    assert (messages["Running"], messages["Restarting"]) == ("pods that run: 1", "failed pods being replaced: 1")
    starting = after(failing, pod("tj-worker-1"))
    assert (truth_of(starting)["Restarting"], starting.replacing) == ("True", [])
    running = after(starting, pod("tj-worker-0"), pod("tj-worker-1"))
    assert truth_of(running)["Restarting"] == "False"


@pytest.mark.parametrize(("succeeded", "kind"), [(True, "Succeeded"), (False, "Failed")])
def test_an_ended_job_keeps_its_conditions_and_counts(kind: str, *, succeeded: bool) -> None:
    running = after(TrainingJobStatus(start_time=EARLIER), pod("tj-worker-0"), pod("tj-worker-1"))
    outcome = JobOutcome(succeeded=succeeded, reason="Because", message="of this")
    ended = after(running, pod("tj-worker-0", "Succeeded"), pod("tj-worker-1", "Failed"), outcome=outcome)
    assert (truth_of(ended)[kind], truth_of(ended)["Running"], ended.completion_time) == ("True", "False", STAMP)
    assert (ready_of(ended).status, ready_of(ended).reason) == ("True" if succeeded else "False", "Because")
    later = after(ended)
    assert ready_of(later) == ready_of(ended)
    assert later.replica_statuses == ended.replica_statuses, "the pods are gone"
    assert (later.replica_statuses["Worker"].succeeded, later.replica_statuses["Worker"].failed) == (1, 1)


def test_a_job_that_has_ended_has_no_active_pods_once_all_are_gone() -> None:
    outcome = JobOutcome(succeeded=True, reason="Because", message="of this")
    pods = (pod("tj-worker-0", "Succeeded"), pod("tj-worker-1"))
    ended = after(TrainingJobStatus(start_time=EARLIER), *pods, outcome=outcome)
    assert (ended.replica_statuses["Worker"].active, ended.running) == (1, "1/2")
    found = after(ended)
    assert found.replica_statuses["Worker"] == ReplicaStatus(succeeded=1)
    assert found.running == "0/2"


def test_a_name_conflict_is_a_problem_and_a_terminating_claim_is_not() -> None:
    foreign = claim("data-tj-worker-0", owners=owned_by("else", "other"))
    conflict = ready_of(written(Observed(training_job(**WORKERS)).view(foreign)))
    assert (conflict.reason, is_problem(conflict)) == ("NameConflict", True)
    leaving = ready_of(written(Observed(training_job(**WORKERS)).view(claim("data-tj-worker-0", leaving=True))))
    assert (leaving.reason, is_problem(leaving)) == ("Terminating", False)


def test_a_refusal_is_reported_with_the_role() -> None:
    observed = Observed(training_job(**WORKERS))
    observed.failures.note(("u1", "Worker"), Refused("403 Forbidden: exceeded quota", 403))
    ready = ready_of(written(observed.view()))
    assert (ready.reason, is_problem(ready)) == ("Refused", True)
    assert "the claims and pods of role Worker cannot be created" in ready.message


def test_claims_that_stay_unbound_are_named_with_the_commands_that_say_why() -> None:
    old = pod("tj-worker-0", "Pending")
    view = Observed(training_job(**WORKERS)).view(claim("data-tj-worker-0", "Pending"), claim("data-tj-worker-1"), old)
    ready = ready_of(written(view))
    assert (ready.reason, is_problem(ready)) == ("VolumeNotBound", True)
    assert "`kubectl describe pvc data-tj-worker-0 -n team`" in ready.message
    recent = msgspec.structs.replace(old.metadata, creation_timestamp=STAMP)
    young = msgspec.structs.replace(old, metadata=recent)
    found = Observed(training_job(**WORKERS)).view(
        claim("data-tj-worker-0", "Pending"), claim("data-tj-worker-1"), young
    )
    assert ready_of(written(found)).reason == "Starting"
