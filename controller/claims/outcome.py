"""Interprets what a Job and its pods report. No input or output, no clock."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from controller.claims.contention import CLAIM_IN_USE
from controller.jobs.blocker import StillRunning, blocker_of
from controller.jobs.observed_jobs import Job, JobPod
from shared.api.core import ObservedCondition
from shared.metadata.reading.termination_message import MAX_MESSAGE, UNFINISHED, Reading, decode_reading

DEADLINE_S = 300
MEMORY_LIMIT = "512Mi"
BLOCKING_REASONS = (
    CLAIM_IN_USE,
    "ContainerNotStarted",
    "ImageNotPulled",
    "JobRefused",
    "MountPending",
    "NoPod",
    "Unschedulable",
)
_KILLED = 137

Outcome: TypeAlias = Reading | StillRunning


def outcome_of(job: Job, pods: Sequence[JobPod], now: datetime) -> Outcome:
    """Return the reported result, why there is none, or that the Job is still running."""
    latest = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    done = next((pod for pod in latest if pod.status.phase == "Succeeded"), None)
    if done is not None:
        return _final_report(done) or _failed(latest, "JobFailed", "the Job's pod ended without reporting a result")
    end = job.end
    if end is not None:
        return _ended(end, latest)
    return blocker_of(job, latest, now)


def _final_report(pod: JobPod) -> Reading | None:
    """Return a pod's final report; None if it has none, or only a preliminary one."""
    report = _report(pod)
    return report if report is not None and report.reason != UNFINISHED else None


def _report(pod: JobPod) -> Reading | None:
    terminated = pod.state.terminated
    if terminated is None or not terminated.message:
        return None
    try:
        return decode_reading(terminated.message)
    except ValueError as error:
        message = f"the result of the Job's pod is invalid: {error}"
        return Reading(reason="ResultMalformed", message=message[:MAX_MESSAGE])


def _ended(end: ObservedCondition, pods: Sequence[JobPod]) -> Reading:
    for pod in pods:
        terminated = pod.state.terminated
        if terminated is not None and terminated.reason == "OOMKilled":
            message = f"reading the metadata took more than the Job's memory limit of {MEMORY_LIMIT}"
            return _failed(pods, "OutOfMemory", message)
        if (report := _final_report(pod)) is not None:
            return report
    if end.reason == "DeadlineExceeded":
        return _failed(pods, "DeadlineExceeded", f"reading the metadata took more than {DEADLINE_S} seconds")
    for pod in pods:
        if pod.status.reason:
            message = f"{pod.status.reason}: {pod.status.message}".rstrip(": ")
            return _failed(pods, "JobKilled", f"the node ended the Job's pod: {message}")
        if pod.state.terminated is not None and pod.state.terminated.exit_code == _KILLED:
            message = f"the Job's pod was killed (exit code {_KILLED}), but not for lack of memory"
            return _failed(pods, "JobKilled", message)
    message = "its pods are gone" if end.type == "Complete" else f"{end.reason}: {end.message}"
    return _failed(pods, "JobFailed", f"the Job ended without a result: {message}")


def _failed(pods: Sequence[JobPod], reason: str, message: str) -> Reading:
    """Return a failed reading; only a preliminary report can tell whether the sub-path exists."""
    reports = (_report(pod) for pod in pods)
    found = True if any(report is not None and report.reason == UNFINISHED for report in reports) else None
    return Reading(found=found, reason=reason, message=message[:MAX_MESSAGE])
