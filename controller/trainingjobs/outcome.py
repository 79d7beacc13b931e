"""Decides whether and how a training job has ended. No input or output, no clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.trainingjobs.objects import MASTERS
from controller.trainingjobs.training_pod import TrainingPod
from controller.trainingjobs.view import ReplicaView, TrainingJobView
from shared.api.meta import holds
from shared.api.training_job import RestartPolicy, TrainingJobStatus

_FIRST_RETRYABLE_CODE = 128  # Kubeflow's: a signal ended the container
_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The end of a job."""

    succeeded: bool
    reason: str
    message: str


def has_ended(status: TrainingJobStatus) -> bool:
    """Return whether a job has succeeded or failed."""
    return holds(status.conditions, "Succeeded") or holds(status.conditions, "Failed")


def outcome_of(view: TrainingJobView, now: datetime) -> JobOutcome | None:
    """Return how the job ended, or None if it still runs. A final failure takes precedence, then success."""
    final = next((failure for failure in (_failure(view, r) for r in view.replicas) if failure), "")
    if final:
        return JobOutcome(succeeded=False, reason="PodFailed", message=final)
    if message := _success(view):
        return JobOutcome(succeeded=True, reason="Succeeded", message=message)
    if message := _too_many_restarts(view):
        return JobOutcome(succeeded=False, reason="BackoffLimitExceeded", message=message)
    limit_s = view.job.spec.run_policy.active_deadline_seconds
    if limit_s is not None and (end := deadline_of(view)) is not None and now >= end:
        message = f"the job did not succeed within the {limit_s} seconds of activeDeadlineSeconds"
        return JobOutcome(succeeded=False, reason="DeadlineExceeded", message=message)
    return None


def deadline_of(view: TrainingJobView) -> datetime | None:
    """Return the job's deadline, or None."""
    limit_s, start = view.job.spec.run_policy.active_deadline_seconds, view.job.status.start_time
    return datetime.fromisoformat(start) + timedelta(seconds=limit_s) if limit_s is not None and start else None


def failed_pods(view: TrainingJobView) -> Iterator[TrainingPod]:
    """Yield the pods that failed; one that is being deleted did not fail on its own."""
    for replica in view.replicas:
        if replica.pod is not None and replica.pod.phase == "Failed" and not replica.pod.is_leaving:
            yield replica.pod


def is_replaced(pod: TrainingPod, policy: RestartPolicy) -> bool:
    """Return whether a failed pod is replaced: always after a disruption, otherwise by the role's policy."""
    if pod.is_disrupted or policy in ("Always", "OnFailure"):
        return True
    return policy == "ExitCode" and all(end.exit_code >= _FIRST_RETRYABLE_CODE for _, end in pod.failed_containers)


def describe_failure(pod: TrainingPod) -> str:
    """Return which pod failed and how."""
    how = ", ".join(
        f"container {name} with exit code {end.exit_code} ({end.reason})" for name, end in pod.failed_containers[:3]
    )
    return f"pod {pod.metadata.name} failed: {how or pod.status.reason or 'no reason reported'}"


def _failure(view: TrainingJobView, replica: ReplicaView) -> str:
    """Return why a replica's failure is final; empty if it has not failed or is restarted."""
    pod, policy = replica.pod, view.job.spec.replica_specs[replica.replica.role].restart_policy
    if pod is None or pod.phase != "Failed" or pod.is_leaving or is_replaced(pod, policy):
        return ""
    return f"{describe_failure(pod)}, and restartPolicy {policy} of role {replica.replica.role} does not replace it"


def _success(view: TrainingJobView) -> str:
    """Return why the job has succeeded; empty if it has not."""
    judged = _judged(view)
    if not judged or not all(r.pod is not None and r.pod.phase == "Succeeded" for r in judged):
        return ""
    return f"pod {judged[0].name} succeeded" if len(judged) == 1 else f"all {len(judged)} pods that count succeeded"


def _judged(view: TrainingJobView) -> list[ReplicaView]:
    """Return the replicas that decide success: the master, worker 0, all workers, or all replicas."""
    by_role = [(r.replica.role.lower(), r) for r in view.replicas]
    if masters := [r for role, r in by_role if role in MASTERS]:
        return masters
    if workers := [r for role, r in by_role if role == _WORKER]:
        return workers if view.job.spec.success_policy == "AllWorkers" else workers[:1]
    return list(view.replicas)


def _too_many_restarts(view: TrainingJobView) -> str:
    limit = view.job.spec.run_policy.backoff_limit
    if limit is None:
        return ""
    status = view.job.status
    new = [p for p in failed_pods(view) if not p.is_disrupted and p.metadata.uid not in status.replacing]
    in_place = sum(p.restarts for p in view.pods if p.metadata.uid not in status.replacing)
    if (count := status.restarts + len(new) + in_place) <= limit:
        return ""
    last = f"; {describe_failure(new[0])}" if new else ""
    return f"{count} restarts exceed the backoffLimit of {limit}{last}"
