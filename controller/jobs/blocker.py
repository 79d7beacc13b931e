"""Says what blocks an unfinished Job. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.jobs.observed_jobs import Job, JobPod
from shared.api.meta import condition_of

_NO_POD_AFTER = timedelta(seconds=20)
_MOUNT_AFTER = timedelta(seconds=30)
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The Job is still running; `reason` and `message` say what blocks it, if anything."""

    reason: str = ""
    message: str = ""


def blocker_of(job: Job, pods: Sequence[JobPod], now: datetime) -> StillRunning:
    """Return what blocks an unfinished Job; `pods` are its pods, the newest first."""
    if not pods:
        if job.status.failed or job.status.terminating:
            return StillRunning()
        if now - _time(job.metadata.creation_timestamp, now) < _NO_POD_AFTER:
            return StillRunning()
        look = f"see kubectl events -n {job.metadata.namespace} --for job/{job.metadata.name}"
        return StillRunning("NoPod", f"the Job has no pod; a quota or policy of the namespace may forbid it; {look}")
    pod = pods[0]
    # works even after the pod is deleted
    look = f"see kubectl events -n {pod.metadata.namespace} --for pod/{pod.metadata.name}"
    scheduled = condition_of(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return StillRunning(
            "Unschedulable", f"the Job's pod cannot be scheduled: {scheduled.message or scheduled.reason}"
        )
    waiting = pod.state.waiting
    if waiting is None:
        return StillRunning()
    if waiting.reason in _IMAGE:
        message = f"{waiting.reason}: {waiting.message}; namespace {pod.metadata.namespace} must be able to pull it"
        return StillRunning("ImageNotPulled", f"the Job's image cannot be pulled: {message}")
    if waiting.reason == "ContainerCreating":
        late = now - _time(pod.metadata.creation_timestamp, now) >= _MOUNT_AFTER
        return StillRunning("MountPending", f"the volume is not mounted yet; {look}") if late else StillRunning()
    if waiting.reason in ("", "PodInitializing"):
        return StillRunning()
    return StillRunning("ContainerNotStarted", f"{waiting.reason}: {waiting.message}; {look}")


def _time(stamp: str, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(stamp) if stamp else otherwise
