"""Decides the next steps for one TrainingJob. No input or output, no clock.

    created ──► claims ──► pods ──► Running ──► Succeeded or Failed ──► clean-up, and deletion after its ttl
                  ▲          │
                  └──────────┘ a pod is gone, or failed and is replaced: its claims are still there

A claim is always created before its pod, and again if it is deleted before the pod has started. Larder never deletes a
claim: Kubernetes collects them with the job.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.claimtemplates.templates import VolumeClaimTemplate
from controller.manager.actions import Requeue
from controller.manager.poll_delay import poll_delay_s
from controller.trainingjobs.objects import JobReplica
from controller.trainingjobs.outcome import JobOutcome, deadline_of, failed_pods, has_ended, outcome_of
from controller.trainingjobs.training_pod import TrainingPod
from controller.trainingjobs.view import ReplicaView, TrainingJobView
from shared.kube.objects import Meta

PODS_AT_ONCE = 50  # pods created or deleted per reconcile, so that other namespaces get their turn
MAX_QUEUED = 500  # claims per role in the queue, which is in memory
MAX_REPLACED = 100  # failed pods in `status.replacing`
RESTART_S = 10.0  # minimum time between creating a pod and its replacement
LOOK_AGAIN_S = 30.0  # between polls while another object has the name
_POLLS_PER_TURN = 20  # a position is at most a quarter out of date at 5 claims per second
POSITION_S = 5.0  # minimum time between two polls of the queue
_SEEN_S = 0.5  # by then, the watch has usually reported the deletions
UNBOUND_S = 60.0  # before an unbound claim is reported


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the Service that gives the pods DNS names."""


@dataclass(frozen=True, slots=True)
class ProvisionClaims:
    """Queue the creation of a replica's claims; `number` is its position among the replicas."""

    replica: JobReplica
    templates: tuple[VolumeClaimTemplate, ...]
    number: int


@dataclass(frozen=True, slots=True)
class WithdrawClaims:
    """Cancel the queued creations, except for the replicas in `kept`."""

    kept: frozenset[JobReplica] = frozenset()


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create the pods of some replicas of one role."""

    role: str
    replicas: tuple[JobReplica, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete exactly the pods that were read."""

    seen: tuple[Meta, ...]


@dataclass(frozen=True, slots=True)
class DeleteTrainingJob:
    """Delete the job, because its ttl has passed."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class WriteJobStatus:
    """Write the status.

    Args:
        outcome: How the job has just ended; None if it is still running or ended earlier.
        replace: Failed pods to count as restarts before they are deleted.
    """

    outcome: JobOutcome | None = None
    replace: tuple[str, ...] = ()


Creation: TypeAlias = CreateService | ProvisionClaims | WithdrawClaims | CreatePods
Action: TypeAlias = Creation | DeletePods | DeleteTrainingJob | WriteJobStatus | Requeue


def decide(view: TrainingJobView, now: datetime) -> list[Action]:
    """Return the next steps for a job, in order."""
    job = view.job
    if job.metadata.deletion_timestamp is not None:
        return [WithdrawClaims()]
    if has_ended(job.status):
        return [WithdrawClaims(), *_clean_up(view), *_expire(view, now), WriteJobStatus()]
    if job.spec.run_policy.suspend:
        return [WithdrawClaims(), *_delete(list(view.pods)), WriteJobStatus()]
    if view.invalid:
        return [WithdrawClaims(), WriteJobStatus()]
    if (outcome := outcome_of(view, now)) is not None:
        return [WithdrawClaims(), WriteJobStatus(outcome)]
    replace = tuple(_to_count(view))
    return [
        *_service(view),
        *_surplus(view),
        *_replacements(view, now),
        *_creations(view),
        WriteJobStatus(replace=replace),
        *_polls(view, now),
    ]


def _clean_up(view: TrainingJobView) -> Iterator[Action]:
    policy = view.job.spec.run_policy.clean_pod_policy
    if policy != "None":
        going = [pod for pod in view.pods if policy == "All" or pod.phase in ("Pending", "Running")]
        yield from _delete(going)


def _expire(view: TrainingJobView, now: datetime) -> Iterator[Action]:
    """Delete the job once its ttl has passed."""
    ttl_s, end = view.job.spec.run_policy.ttl_seconds_after_finished, view.job.status.completion_time
    if ttl_s is None or not end:
        return
    left_s = (datetime.fromisoformat(end) + timedelta(seconds=ttl_s) - now).total_seconds()
    yield Requeue(left_s) if left_s > 0 else DeleteTrainingJob(view.job.metadata)


def _service(view: TrainingJobView) -> Iterator[Action]:
    failure = view.failures.get("")
    waits = failure is not None and failure.retry_s
    if not view.has_service and view.service_obstacle is None and not waits:
        yield CreateService()


def _surplus(view: TrainingJobView) -> Iterator[Action]:
    """Delete the pods of replicas that are no longer wanted, and cancel their queued claims."""
    wanted = {replica.name for replica in view.replicas}
    surplus = [pod for pod in view.pods if pod.metadata.name not in wanted]
    if view.queue.queued:
        yield WithdrawClaims(frozenset(replica.replica for replica in view.replicas))
    yield from _delete(surplus)


def _to_count(view: TrainingJobView) -> Iterator[str]:
    """Yield the failed pods that are not yet counted as restarts, as many as fit into the status."""
    counted = set(view.job.status.replacing)
    known = sum(1 for pod in view.pods if pod.metadata.uid in counted)
    new = [p.metadata.uid for p in failed_pods(view) if not p.is_disrupted and p.metadata.uid not in counted]
    yield from new[: max(0, MAX_REPLACED - known)]


def _replacements(view: TrainingJobView, now: datetime) -> Iterator[Action]:
    """Delete failed pods once they are counted; replacements are created when they are gone."""
    counted = set(view.job.status.replacing)
    due = [pod for pod in failed_pods(view) if pod.is_disrupted or pod.metadata.uid in counted]
    ages_s = [(pod, (now - datetime.fromisoformat(pod.metadata.creation_timestamp)).total_seconds()) for pod in due]
    yield from _delete([pod for pod, age_s in ages_s if age_s >= RESTART_S])
    if waits_s := [RESTART_S - age_s for _, age_s in ages_s if age_s < RESTART_S]:
        yield Requeue(min(waits_s))


def _creations(view: TrainingJobView) -> Iterator[Action]:
    """Create what is missing. After a refusal, only one replica of the role is retried first."""
    if view.service_obstacle is not None or "" in view.failures:
        yield Requeue(LOOK_AGAIN_S)
        return
    room = PODS_AT_ONCE
    for role in dict.fromkeys(replica.replica.role for replica in view.replicas):
        failure = view.failures.get(role)
        if failure is not None and failure.retry_s:
            yield Requeue(failure.retry_s)
            continue
        of_role = ((n, r) for n, r in enumerate(view.replicas) if r.replica.role == role)
        short = [(n, r) for n, r in of_role if r.missing or _is_creatable(r)]
        if failure is not None and failure.retry_s is not None:
            short = short[:1]
        yield from _provisions(short)
        complete = [r.replica for _, r in short if not r.missing]
        if now_created := tuple(complete[:room]):
            yield CreatePods(role, now_created)
            room -= len(now_created)
        if len(complete) > len(now_created):
            yield Requeue(0)
    if any(r.obstacle is not None and r.pod is None for r in view.replicas):
        yield Requeue(LOOK_AGAIN_S)


def _provisions(short: Iterable[tuple[int, ReplicaView]]) -> Iterator[ProvisionClaims]:
    """Queue the claims of the first replicas; claims that are already queued count towards the limit."""
    room = MAX_QUEUED
    for number, replica in short:
        if room <= 0:
            return
        if replica.missing:
            yield ProvisionClaims(replica.replica, replica.missing, number)
            room -= len(replica.missing)


def _is_creatable(replica: ReplicaView) -> bool:
    return replica.pod is None and not replica.expected and replica.obstacle is None


def _polls(view: TrainingJobView, now: datetime) -> Iterator[Action]:
    """Poll for changes that no watch reports."""
    if (end := deadline_of(view)) is not None:
        yield Requeue(max(0.0, (end - now).total_seconds()))
    if view.queue.queued or any(replica.expected for replica in view.replicas):
        yield Requeue(poll_delay_s(max(POSITION_S, view.queue.position / _POLLS_PER_TURN), view.active))
    elif any(_is_short(view, replica) for replica in view.replicas):
        yield Requeue(poll_delay_s(LOOK_AGAIN_S, view.active))
    if any(replica.unbound for replica in view.replicas):
        yield Requeue(poll_delay_s(UNBOUND_S, view.active))


def _is_short(view: TrainingJobView, replica: ReplicaView) -> bool:
    """Return whether a replica's claims may still have to be queued, for example because the queue was full."""
    return bool(replica.missing) and replica.replica.role not in view.failures


def _delete(pods: list[TrainingPod]) -> Iterator[Action]:
    """Delete pods in batches; each deletion triggers the next reconcile."""
    seen = tuple(pod.metadata for pod in pods if not pod.is_leaving)
    if seen:
        yield DeletePods(seen[:PODS_AT_ONCE])
    if len(seen) > PODS_AT_ONCE:
        yield Requeue(_SEEN_S)
