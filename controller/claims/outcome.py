"""What a Job and its pods say about a reading. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.claims.contention import CLAIM_IN_USE
from controller.claims.kinds import Job, JobPod
from shared.api.core import ObservedCondition
from shared.api.meta import condition_of
from shared.metadata.termination_message import MOST_MESSAGE, UNFINISHED, Reading, decode_reading

DEADLINE_S = 300
MEMORY_LIMIT = "512Mi"
TROUBLES = (
    CLAIM_IN_USE,
    "ContainerNotStarted",
    "ImageNotPulled",
    "JobRefused",
    "MountPending",
    "NoPod",
    "Unschedulable",
)
_NO_POD_AFTER = timedelta(seconds=20)
_MOUNT_AFTER = timedelta(seconds=30)
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_KILLED = 137


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The Job is still running; with what blocks it, if anything."""

    reason: str = ""
    message: str = ""


Outcome: TypeAlias = Reading | StillRunning


def outcome_of(job: Job, pods: Sequence[JobPod], now: datetime) -> Outcome:
    """Return what was reported, why nothing was, or that the Job is still running."""
    latest = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    done = next((pod for pod in latest if pod.status.phase == "Succeeded"), None)
    if done is not None:
        return _handed_in(done) or _given_up(latest, "JobFailed", "the Job's pod ended without a word")
    end = job.end
    if end is not None:
        return _ended(end, latest)
    return _blocker(job, latest, now)


def _handed_in(pod: JobPod) -> Reading | None:
    """Return a pod's final report; None if it has none, or only a preliminary one."""
    word = _word(pod)
    return word if word is not None and word.reason != UNFINISHED else None


def _word(pod: JobPod) -> Reading | None:
    terminated = pod.state.terminated
    if terminated is None or not terminated.message:
        return None
    try:
        return decode_reading(terminated.message)
    except ValueError as error:
        words = f"what the Job's pod handed in is not used: {error}"
        return Reading(reason="ResultMalformed", message=words[:MOST_MESSAGE])


def _ended(end: ObservedCondition, pods: Sequence[JobPod]) -> Reading:
    for pod in pods:
        terminated = pod.state.terminated
        if terminated is not None and terminated.reason == "OOMKilled":
            words = f"reading it took more than the {MEMORY_LIMIT} that the Job may use"
            return _given_up(pods, "OutOfMemory", words)
        if (handed_in := _handed_in(pod)) is not None:
            return handed_in
    if end.reason == "DeadlineExceeded":
        return _given_up(pods, "DeadlineExceeded", f"reading it took more than {DEADLINE_S} seconds")
    for pod in pods:
        if pod.status.reason:
            words = f"{pod.status.reason}: {pod.status.message}".rstrip(": ")
            return _given_up(pods, "JobKilled", f"the Job's pod was ended by its node: {words}")
        if pod.state.terminated is not None and pod.state.terminated.exit_code == _KILLED:
            words = f"the Job's pod was killed (exit code {_KILLED}), and not for its memory"
            return _given_up(pods, "JobKilled", words)
    words = "its pods are gone" if end.type == "Complete" else f"{end.reason}: {end.message}"
    return _given_up(pods, "JobFailed", f"the Job ended without a result: {words}")


def _given_up(pods: Sequence[JobPod], reason: str, message: str) -> Reading:
    """Return a failed reading; only a preliminary report can tell whether the sub-path exists."""
    words = (_word(pod) for pod in pods)
    found = True if any(word is not None and word.reason == UNFINISHED for word in words) else None
    return Reading(found=found, reason=reason, message=message[:MOST_MESSAGE])


def _blocker(job: Job, pods: Sequence[JobPod], now: datetime) -> StillRunning:
    if not pods:
        if job.status.failed or job.status.terminating:
            return StillRunning()
        if now - _time(job.metadata.creation_timestamp, now) < _NO_POD_AFTER:
            return StillRunning()
        look = f"kubectl events -n {job.metadata.namespace} --for job/{job.metadata.name} tells"
        return StillRunning("NoPod", f"the Job has no pod: a quota or a policy of the namespace may forbid it; {look}")
    pod = pods[0]
    # works even after the pod is deleted
    look = f"kubectl events -n {pod.metadata.namespace} --for pod/{pod.metadata.name} tells"
    scheduled = condition_of(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return StillRunning("Unschedulable", f"no node takes the Job's pod: {scheduled.message or scheduled.reason}")
    waiting = pod.state.waiting
    if waiting is None:
        return StillRunning()
    if waiting.reason in _IMAGE:
        words = f"{waiting.reason}: {waiting.message}; namespace {pod.metadata.namespace} must be able to pull it"
        return StillRunning("ImageNotPulled", f"the image of the Job is not pulled: {words}")
    if waiting.reason == "ContainerCreating":
        late = now - _time(pod.metadata.creation_timestamp, now) >= _MOUNT_AFTER
        return StillRunning("MountPending", f"the volume is not mounted yet; {look}") if late else StillRunning()
    if waiting.reason in ("", "PodInitializing"):
        return StillRunning()
    return StillRunning("ContainerNotStarted", f"{waiting.reason}: {waiting.message}; {look}")


def _time(stamp: str, otherwise: datetime) -> datetime:
    return datetime.fromisoformat(stamp) if stamp else otherwise
