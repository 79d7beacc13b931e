"""Interprets what a download Job and its pods report. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from controller.downloads.job import MEMORY_LIMIT
from controller.jobs.blocker import blocker_of
from controller.jobs.observed_jobs import Job, JobPod
from shared.download_report import DownloadReport, decode_report

# Why a Job failed, in addition to the reasons that the download itself reports.
REASONS = ("OutOfMemory", "JobKilled", "JobFailed", "DeadlineExceeded", "ResultMalformed")


@dataclass(frozen=True, slots=True)
class DownloadRunning:
    """The Job has not ended; `reason` and `message` say what blocks it, or how its last pod failed."""

    reason: str = ""
    message: str = ""
    is_downloading: bool = False


@dataclass(frozen=True, slots=True)
class DownloadCompleted:
    """A revision is complete on the claim; the bytes are those that the pod reports."""

    revision: str
    downloaded_bytes: int = 0
    reused_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DownloadFailed:
    """The Job gave up."""

    reason: str
    message: str


Outcome: TypeAlias = DownloadRunning | DownloadCompleted | DownloadFailed


def outcome_of(job: Job, pods: Sequence[JobPod], now: datetime) -> Outcome:
    """Return how a Job ended, or that it is still running."""
    newest = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    done = next((pod for pod in newest if pod.status.phase == "Succeeded"), None)
    if done is not None:
        report = _report(done)
        if report is not None and report.revision:
            return DownloadCompleted(report.revision, report.downloaded_bytes, report.reused_bytes)
        return DownloadFailed(
            "ResultMalformed", "the download's pod ended without naming the revision that it downloaded"
        )
    failure = _failure(newest)
    if job.end is not None:
        return failure if failure is not None else _ended(job)
    if newest and newest[0].status.phase == "Running":
        return DownloadRunning(is_downloading=True)
    if newest and newest[0].status.phase == "Failed" and failure is not None:
        return DownloadRunning(failure.reason, f"{failure.message}; another pod continues soon")
    blocker = blocker_of(job, newest, now)
    return DownloadRunning(blocker.reason, blocker.message)


def _failure(pods: Sequence[JobPod]) -> DownloadFailed | None:
    """Return why the newest failed pod failed."""
    for pod in pods:
        ended = pod.state.terminated
        if ended is not None and ended.reason == "OOMKilled":
            return DownloadFailed("OutOfMemory", f"the download exceeded the Job's memory limit of {MEMORY_LIMIT}")
        report = _report(pod)
        if report is not None and report.reason:
            return DownloadFailed(report.reason, report.message)
        if pod.status.phase == "Failed" and pod.status.reason:
            return DownloadFailed(
                "JobKilled", f"the node ended the download's pod: {pod.status.reason}: {pod.status.message}"
            )
    return None


def _ended(job: Job) -> DownloadFailed:
    end = job.end
    reason, message = (end.reason, end.message) if end is not None else ("", "")
    if reason == "DeadlineExceeded":
        return DownloadFailed(
            reason, "the download took longer than one Job may; the next one continues where this one ended"
        )
    return DownloadFailed("JobFailed", f"the download's Job ended without a result: {reason}: {message}")


def _report(pod: JobPod) -> DownloadReport | None:
    ended = pod.state.terminated
    if ended is None or not ended.message:
        return None
    try:
        return decode_report(ended.message)
    except ValueError as error:
        return DownloadReport(reason="ResultMalformed", message=f"the result of the download's pod is invalid: {error}")
