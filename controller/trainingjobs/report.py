"""Builds the status of a TrainingJob. No input or output, no clock."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import msgspec

from controller.manager.conditions import ConditionUpdate, kstatus_condition, with_conditions
from controller.provisioning.provision_queue import ordinal_bound
from controller.trainingjobs.decide import UNBOUND_S, WriteJobStatus
from controller.trainingjobs.outcome import JobOutcome, failed_pods, has_ended
from controller.trainingjobs.view import ReplicaView, TrainingJobView
from shared.api.meta import Condition, condition_of, holds
from shared.api.training_job import ReplicaStatus, TrainingJobStatus
from shared.kube.objects import timestamp

READY = "Ready"
QUEUED, NOT_BOUND, REFUSED, INVALID = "Queued", "VolumeNotBound", "Refused", "InvalidTemplate"
NAME_TOO_LONG, NAME_CONFLICT, TERMINATING = "NameTooLong", "NameConflict", "Terminating"
IN_PROGRESS = frozenset((QUEUED, "Starting", TERMINATING))  # resolve by themselves
_STUCK = frozenset((NAME_TOO_LONG, NAME_CONFLICT, REFUSED, INVALID, NOT_BOUND))


def status_of(view: TrainingJobView, write: WriteJobStatus, now: datetime) -> TrainingJobStatus:
    """Return the status."""
    job, before, stamp = view.job, view.job.status, timestamp(now)
    suspended = job.spec.run_policy.suspend and not has_ended(before)
    known = {pod.metadata.uid: pod for pod in view.pods}
    statuses = dict(_replica_statuses(view))
    wanted = sum(spec.replicas for spec in job.spec.replica_specs.values())
    conditions = list(_conditions(view, write.outcome, now))
    return msgspec.structs.replace(
        before,
        conditions=with_conditions(before.conditions, conditions, stamp, job.metadata.generation),
        observed_generation=job.metadata.generation,
        start_time="" if suspended else before.start_time or stamp,
        completion_time=stamp if write.outcome is not None else before.completion_time,
        replica_statuses=statuses,
        running=f"{sum(one.active for one in statuses.values())}/{wanted}",
        queue_position=ordinal_bound(view.queue.position) if view.queue.position else 0,
        restarts=before.restarts + sum(1 + known[uid].restarts for uid in write.replace if uid in known),
        replacing=[*(uid for uid in before.replacing if uid in known), *write.replace],
    )


def is_problem(ready: Condition) -> bool:
    """Return whether an Event about this condition is a warning."""
    return ready.reason in _STUCK or ready.reason in ("PodFailed", "BackoffLimitExceeded", "DeadlineExceeded")


def _replica_statuses(view: TrainingJobView) -> Iterator[tuple[str, ReplicaStatus]]:
    """Yield the counts per role; once the job has ended, deleted pods that succeeded or failed still count."""
    phases = {pod.metadata.name: pod.phase for pod in view.pods if not pod.is_leaving}
    prefix = f"{view.job.metadata.name}-"
    counts = Counter((name.removeprefix(prefix).partition("-")[0], phase) for name, phase in phases.items())
    waiting = Counter(r.replica.role for r in view.replicas if r.waits_for_volumes)
    for role in view.job.spec.replica_specs:
        before = view.job.status.replica_statuses.get(role, ReplicaStatus())
        ended, low = has_ended(view.job.status), role.lower()
        yield (
            role,
            ReplicaStatus(
                active=counts[low, "Running"],
                succeeded=max(counts[low, "Succeeded"], before.succeeded if ended else 0),
                failed=max(counts[low, "Failed"], before.failed if ended else 0),
                waiting_for_volumes=waiting[role],
            ),
        )


def _conditions(view: TrainingJobView, outcome: JobOutcome | None, now: datetime) -> Iterator[ConditionUpdate]:
    """Yield the conditions that Kubeflow's jobs have, and Ready, which sums them up."""
    before = view.job.status.conditions
    yield ConditionUpdate("Created", "True", "JobCreated", "Larder has accepted the job")
    if has_ended(view.job.status):
        if (last := condition_of(before, READY)) is not None:
            yield ConditionUpdate(READY, last.status, last.reason, last.message)
        return
    if outcome is not None:
        yield from _ended(before, outcome)
        return
    ready = _ready(view, now)
    suspended, running = view.job.spec.run_policy.suspend, sum(1 for pod in view.pods if pod.phase == "Running")
    yield ready
    if ready.status != "True" and not suspended:
        yield kstatus_condition(ready, stalled=ready.reason in _STUCK)
    yield ConditionUpdate("Running", "True" if running else "False", ready.reason, f"pods that run: {running}")
    failed = [] if suspended else [pod.metadata.name for pod in failed_pods(view)]
    restarting = failed or (holds(before, "Restarting") and ready.reason != "Running" and not suspended)
    if restarting or condition_of(before, "Restarting") is not None:
        message = f"failed pods being replaced: {len(failed)}" if failed else ready.message
        yield ConditionUpdate("Restarting", "True" if restarting else "False", "PodsReplaced", message)
    if suspended or condition_of(before, "Suspended") is not None:
        reason, message = ("Suspended", "runPolicy.suspend is true") if suspended else ("Resumed", "it was resumed")
        yield ConditionUpdate("Suspended", "True" if suspended else "False", reason, message)


def _ended(before: list[Condition], outcome: JobOutcome) -> Iterator[ConditionUpdate]:
    reason, message = outcome.reason, outcome.message
    yield ConditionUpdate(READY, "True" if outcome.succeeded else "False", reason, message)
    if not outcome.succeeded:
        yield kstatus_condition(ConditionUpdate(READY, "False", reason, message), stalled=True)
    for kind in ("Running", "Restarting"):
        if condition_of(before, kind) is not None:
            yield ConditionUpdate(kind, "False", reason, message)
    yield ConditionUpdate("Succeeded" if outcome.succeeded else "Failed", "True", reason, message)


def _ready(view: TrainingJobView, now: datetime) -> ConditionUpdate:
    """Return the condition Ready of a running job: first anything that blocks it, then anything it waits for."""
    if view.job.spec.run_policy.suspend:
        return _not("Suspended", "runPolicy.suspend is true, so the job has no pods; its claims are kept")
    if view.invalid:
        return _not(INVALID, view.invalid)
    found = next(_obstacles(view, now), None)
    if found is not None:
        return found
    wanted, running = len(view.replicas), _count(view, ("Running", "Succeeded"))
    short = [r for r in view.replicas if r.missing]
    if short:
        claims = sum(len(replica.missing) for replica in short)
        place = (
            f", the next one among the first {ordinal_bound(at)} in the queue" if (at := view.queue.position) else ""
        )
        message = f"{running} of {wanted} pods run; replicas that wait: {len(short)}, claims to create: {claims}{place}"
        return _not(QUEUED, message)
    if running < wanted:
        pending = _count(view, ("Pending",))
        return _not("Starting", f"{running} of {wanted} pods run; pending: {pending}")
    return ConditionUpdate(READY, "True", "Running", f"{running} of {wanted} pods run or have succeeded")


def _obstacles(view: TrainingJobView, now: datetime) -> Iterator[ConditionUpdate]:
    """Yield the problems that a user has to fix, the most certain first."""
    blocked = [r for r in view.replicas if r.obstacle is not None and r.pod is None]
    obstacles = [view.service_obstacle, *(replica.obstacle for replica in blocked)]
    order = (NAME_TOO_LONG, NAME_CONFLICT, TERMINATING)
    for found in sorted((one for one in obstacles if one is not None), key=lambda one: order.index(one.reason)):
        more = f" ({len(blocked)} replicas get no pod)" if len(blocked) > 1 else ""
        yield _not(found.reason, found.message + more)
    for role, failure in view.failures.items():
        if failure.reason == NAME_CONFLICT:
            yield _not(NAME_CONFLICT, failure.message)
            continue
        what = f"the claims and pods of role {role}" if role else "the Service"
        yield _not(REFUSED, f"{what} cannot be created: {failure.message}; Larder retries")
    late = [r for r in view.replicas if r.waits_for_volumes and r.unbound and _age_s(r, now) >= UNBOUND_S]
    if late:
        claim, namespace = late[0].unbound[0], view.job.metadata.namespace
        yield _not(
            NOT_BOUND,
            f"pods that wait for unbound claims: {len(late)}, the first since {_created(late[0])}; `kubectl "
            f"describe pvc {claim} -n {namespace}` and `kubectl describe pod {late[0].name} -n {namespace}` say why",
        )


def _created(replica: ReplicaView) -> str:
    return replica.pod.metadata.creation_timestamp if replica.pod is not None else ""


def _age_s(replica: ReplicaView, now: datetime) -> float:
    created = _created(replica)
    return (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0


def _count(view: TrainingJobView, phases: tuple[str, ...]) -> int:
    return sum(1 for r in view.replicas if r.pod is not None and r.pod.phase in phases and not r.pod.is_leaving)


def _not(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(READY, "False", reason, message)
