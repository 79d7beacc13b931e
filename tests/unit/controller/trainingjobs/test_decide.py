"""The next actions for one TrainingJob."""

from datetime import timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue
from controller.provisioning.exclusive_names import name_taken
from controller.trainingjobs.decide import (
    LOOK_AGAIN_S,
    MAX_QUEUED,
    MAX_REPLACED,
    PODS_AT_ONCE,
    Action,
    CreatePods,
    CreateService,
    DeletePods,
    DeleteTrainingJob,
    ProvisionClaims,
    WithdrawClaims,
    WriteJobStatus,
    decide,
)
from controller.trainingjobs.keys import ReplicaClaimKey
from controller.trainingjobs.objects import JobReplica
from controller.trainingjobs.report import status_of
from controller.trainingjobs.training_pod import TrainingPod
from controller.trainingjobs.view import QueueState
from shared.api.meta import Condition
from shared.api.training_job import RunPolicy, TrainingJobStatus
from shared.kube.errors import Refused, Unreachable
from shared.kube.objects import Key
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

A = TypeVar("A")
ENDED = TrainingJobStatus(
    start_time=EARLIER,
    completion_time=STAMP,
    conditions=[Condition(type="Succeeded", status="True", reason="Succeeded", last_transition_time=STAMP)],
)
QUOTA = Refused("403 Forbidden: exceeded quota: storage", 403)


def only(actions: list[Action], kind: type[A]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def deleted(actions: list[Action]) -> list[str]:
    return [meta.name for action in only(actions, DeletePods) for meta in action.seen]


def created(actions: list[Action]) -> list[JobReplica]:
    return [replica for action in only(actions, CreatePods) for replica in action.replicas]


def test_a_pod_is_created_only_after_its_claim() -> None:
    found = Observed(training_job(Worker=replica_spec(2)))
    actions = decide(found.view(), NOW)
    assert only(actions, CreateService)
    assert [action.replica.index for action in only(actions, ProvisionClaims)] == [0, 1]
    assert created(actions) == []
    actions = decide(found.view(claim("data-tj-worker-1", "Pending")), NOW)
    assert [action.replica.index for action in only(actions, ProvisionClaims)] == [0]
    assert created(actions) == [JobReplica("Worker", 1)]


def test_a_just_created_claim_counts_before_the_watch_reports_it() -> None:
    found = Observed(training_job())
    (wanted,) = only(decide(found.view(), NOW), ProvisionClaims)
    found.recent.note(ReplicaClaimKey("team", "data-tj-worker-0", "u1"))
    actions = decide(found.view(), NOW)
    assert (only(actions, ProvisionClaims), created(actions)) == ([], [wanted.replica])
    found.now = 11
    assert only(decide(found.view(), NOW), ProvisionClaims)


def test_a_claim_that_is_deleted_before_its_pod_has_started_is_created_again() -> None:
    found = Observed(training_job())
    view = found.view(pod(phase="Pending"))
    actions = decide(view, NOW)
    assert [action.replica for action in only(actions, ProvisionClaims)] == [JobReplica("Worker", 0)]
    assert created(actions) == []
    assert min(action.after_s for action in only(actions, Requeue)) <= LOOK_AGAIN_S
    (write,) = only(actions, WriteJobStatus)
    status = status_of(view, write, NOW)
    assert status.replica_statuses["Worker"].waiting_for_volumes == 1
    assert "replicas that wait: 1, claims to create: 1" in status.conditions[1].message


@pytest.mark.parametrize("started", [pod(), pod(phase="Pending", leaving=True), pod(phase="Succeeded")])
def test_the_claim_of_a_pod_that_has_started_or_is_being_deleted_is_not_created_again(started: TrainingPod) -> None:
    assert not only(decide(Observed(training_job()).view(started), NOW), ProvisionClaims)


def test_a_just_created_pod_is_not_recreated() -> None:
    found = Observed(training_job())
    assert created(decide(found.view(claim()), NOW))
    found.recent.note(Key("team", "tj-worker-0"))
    assert not created(decide(found.view(), NOW))
    found.view(pod())
    found.jobs.pods.remove(Key("team", "tj-worker-0"))
    assert created(decide(found.view(), NOW)), "the pod was seen and deleted, so its successor does not wait"


def test_a_large_job_is_created_in_parts_so_that_others_are_served_in_between() -> None:
    found = Observed(training_job(Worker=replica_spec(120, claims=False)))
    actions = decide(found.view(), NOW)
    assert len(created(actions)) == PODS_AT_ONCE
    assert min(action.after_s for action in only(actions, Requeue)) == 0


def test_only_the_next_claims_of_each_role_of_a_large_job_are_queued() -> None:
    found = Observed(training_job(Server=replica_spec(MAX_QUEUED + 9), Worker=replica_spec(MAX_QUEUED + 9)))
    wanted = [action.replica for action in only(decide(found.view(), NOW), ProvisionClaims)]
    assert wanted == [JobReplica(role, n) for role in ("Server", "Worker") for n in range(MAX_QUEUED)]
    made = (claim(f"data-tj-worker-{n}") for n in range(5))
    wanted = [action.replica for action in only(decide(found.view(*made), NOW), ProvisionClaims)]
    assert wanted[-1] == JobReplica("Worker", MAX_QUEUED + 4), "others follow as claims are created"


def test_a_job_whose_claims_found_no_place_in_the_queue_is_requeued() -> None:
    found = Observed(training_job())
    assert only(decide(found.view(), NOW), Requeue) == [Requeue(LOOK_AGAIN_S)]
    for number in range(40):
        found.jobs.jobs.upsert(training_job(name=f"other-{number}"))
    assert only(decide(found.view(), NOW), Requeue) == [Requeue(3 * LOOK_AGAIN_S)], "more rarely among many jobs"


def test_masters_are_created_before_other_roles() -> None:
    found = Observed(training_job(Worker=replica_spec(), Master=replica_spec()))
    assert [a.replica.role for a in only(decide(found.view(), NOW), ProvisionClaims)] == ["Master", "Worker"]


def test_scaling_down_deletes_the_pod_and_keeps_the_claim() -> None:
    found = Observed(training_job(Worker=replica_spec(1)))
    found.queue = QueueState(queued=3)
    actions = decide(found.view(claim(), pod(), claim("data-tj-worker-1"), pod("tj-worker-1")), NOW)
    assert deleted(actions) == ["tj-worker-1"]
    assert only(actions, WithdrawClaims) == [WithdrawClaims(frozenset({JobReplica("Worker", 0)}))]


def test_scaling_up_again_reuses_the_existing_claim() -> None:
    found = Observed(training_job(Worker=replica_spec(2)))
    actions = decide(found.view(claim(), pod(), claim("data-tj-worker-1")), NOW)
    assert (only(actions, ProvisionClaims), created(actions)) == ([], [JobReplica("Worker", 1)])


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_failed_pod_is_counted_before_it_is_deleted(policy: str) -> None:
    found = Observed(training_job(Worker=replica_spec(restart_policy=policy)))
    view = found.view(claim(), pod(phase="Failed", code=1, restarts=2))
    actions = decide(view, NOW)
    (write,) = only(actions, WriteJobStatus)
    assert (deleted(actions), write.replace) == ([], ("uid-tj-worker-0",))
    status = status_of(view, write, NOW)
    assert (status.restarts, status.replacing) == (3, ["uid-tj-worker-0"])
    found.jobs.jobs.upsert(training_job(status, Worker=replica_spec(restart_policy=policy), name="tj"))
    again = Observed(training_job(status, Worker=replica_spec(restart_policy=policy)))
    view = again.view(claim(), pod(phase="Failed", code=1, restarts=2))
    actions = decide(view, NOW)
    (write,) = only(actions, WriteJobStatus)
    assert (deleted(actions), write.replace) == (["tj-worker-0"], ())
    assert status_of(view, write, NOW).restarts == 3


def test_a_pod_that_fails_at_once_is_replaced_after_a_delay() -> None:
    status = TrainingJobStatus(start_time=EARLIER, replacing=["uid-tj-worker-0"], restarts=1)
    created_at = (NOW - timedelta(seconds=4)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = Observed(training_job(status, Worker=replica_spec(restart_policy="Always")))
    actions = decide(found.view(claim(), pod(phase="Failed", code=1, created=created_at)), NOW)
    assert deleted(actions) == []
    assert Requeue(6.0) in actions


def test_failed_pods_are_counted_up_to_the_limit_of_the_status() -> None:
    found = Observed(training_job(Worker=replica_spec(150, restart_policy="Always", claims=False)))
    view = found.view(*(pod(f"tj-worker-{n}", "Failed", code=1) for n in range(150)))
    (write,) = only(decide(view, NOW), WriteJobStatus)
    assert len(write.replace) == MAX_REPLACED


def test_a_pod_being_deleted_is_neither_counted_as_failed_nor_replaced() -> None:
    found = Observed(training_job())
    actions = decide(found.view(claim(), pod(phase="Failed", code=143, leaving=True)), NOW)
    assert (deleted(actions), created(actions)) == ([], [])
    assert only(actions, WriteJobStatus) == [WriteJobStatus()]


def test_a_pod_lost_with_its_node_is_replaced_under_every_policy_and_not_counted() -> None:
    found = Observed(training_job(run=RunPolicy(backoff_limit=0)))
    actions = decide(found.view(claim(), pod(phase="Failed", disrupted=True)), NOW)
    assert deleted(actions) == ["tj-worker-0"]
    assert only(actions, WriteJobStatus) == [WriteJobStatus()]


def test_after_a_refusal_a_single_replica_of_the_role_is_tried_first() -> None:
    found = Observed(training_job(Worker=replica_spec(5), Server=replica_spec(1)))
    found.failures.note(("u1", "Worker"), QUOTA)
    actions = decide(found.view(), NOW)
    assert {action.replica.role for action in only(actions, ProvisionClaims)} == {"Server"}
    assert max(action.after_s for action in only(actions, Requeue)) > 10
    found.now = 60
    tried = [action.replica for action in only(decide(found.view(), NOW), ProvisionClaims)]
    assert [replica for replica in tried if replica.role == "Worker"] == [JobReplica("Worker", 0)]


def test_a_failure_that_the_queue_retries_does_not_hold_back_other_requests() -> None:
    found = Observed(training_job(Worker=replica_spec(3)))
    found.failures.note(("u1", "Worker"), Unreachable("no answer"))
    assert len(only(decide(found.view(), NOW), ProvisionClaims)) == 3


def test_without_its_service_a_job_gets_no_pods() -> None:
    found = Observed(training_job())
    found.failures.note(("u1", ""), name_taken("Service", "tj", "delete it"))
    actions = decide(found.view(claim()), NOW)
    assert (created(actions), only(actions, CreateService)) == ([], [])


def test_a_claim_of_a_foreign_owner_is_never_used() -> None:
    found = Observed(training_job())
    actions = decide(found.view(claim(owners=[])), NOW)
    assert (created(actions), only(actions, ProvisionClaims)) == ([], [])
    found = Observed(training_job())
    actions = decide(found.view(claim(owners=owned_by("u2", "other"))), NOW)
    assert (created(actions), only(actions, ProvisionClaims)) == ([], [])


def test_a_job_that_is_deleted_withdraws_what_it_requested() -> None:
    found = Observed(training_job(deleted=True))
    assert decide(found.view(pod()), NOW) == [WithdrawClaims()]


@pytest.mark.parametrize(("policy", "left"), [("None", []), ("Running", ["p1", "p2"]), ("All", ["p0", "p1", "p2"])])
def test_the_clean_up_policy_decides_which_pods_are_deleted(policy: Any, left: list[str]) -> None:
    found = Observed(training_job(ENDED, run=RunPolicy(clean_pod_policy=policy)))
    pods = pod("p0", "Succeeded"), pod("p1"), pod("p2", "Pending"), pod("p3", leaving=True)
    assert deleted(decide(found.view(*pods), NOW)) == left


def test_a_job_is_deleted_after_its_ttl() -> None:
    found = Observed(training_job(ENDED, run=RunPolicy(ttl_seconds_after_finished=60)))
    assert only(decide(found.view(), NOW), Requeue) == [Requeue(60)]
    assert only(decide(found.view(), NOW + timedelta(seconds=60)), DeleteTrainingJob)


def test_suspending_a_job_deletes_its_pods_and_withdraws_its_claims() -> None:
    found = Observed(training_job(run=RunPolicy(suspend=True)))
    actions = decide(found.view(claim(), pod()), NOW)
    assert deleted(actions) == ["tj-worker-0"]
    assert only(actions, WithdrawClaims)


def test_an_invalid_template_creates_nothing() -> None:
    found = Observed(training_job(Worker=replica_spec(volume_claim_templates=[{"metadata": {}, "spec": {}}])))
    assert decide(found.view(), NOW) == [WithdrawClaims(), WriteJobStatus()]


def test_the_deadline_is_checked_when_it_comes() -> None:
    found = Observed(training_job(run=RunPolicy(active_deadline_seconds=900)))
    assert Requeue(300.0) in decide(found.view(claim(), pod()), NOW)


_PHASES = st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"])


@given(
    phases=st.lists(st.tuples(_PHASES, st.booleans(), st.booleans()), min_size=1, max_size=6),
    policy=st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"]),
    wanted=st.integers(0, 6),
    code=st.sampled_from([1, 137]),
)
def test_no_pod_is_created_without_its_claim_or_twice(
    phases: list[tuple[str, bool, bool]], policy: str, wanted: int, code: int
) -> None:
    found = Observed(training_job(Worker=replica_spec(wanted, restart_policy=policy)))
    pods = {n: (phase, leaving) for n, (phase, _, leaving) in enumerate(phases) if phase}
    claims = {n for n, (_, has_claim, _) in enumerate(phases) if has_claim}
    known = [pod(f"tj-worker-{n}", p, code=code if p == "Failed" else 0, leaving=gone) for n, (p, gone) in pods.items()]
    actions = decide(found.view(*known, *(claim(f"data-tj-worker-{n}") for n in claims)), NOW)
    for replica in created(actions):
        assert replica.index in claims
        assert replica.index not in pods
        assert replica.index < wanted
    for action in only(actions, ProvisionClaims):
        assert action.replica.index not in claims
