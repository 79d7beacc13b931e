"""The outcome of a download Job, from its own status and its pods' reports."""

from typing import Any

import pytest

from controller.downloads.outcome import DownloadCompleted, DownloadFailed, DownloadRunning, Outcome, outcome_of
from controller.jobs.observed_jobs import ContainerState, ContainerStatus, Job, JobPod, JobStatus, PodStatus, Terminated
from shared.api.core import ObservedCondition
from shared.download_report import DownloadReport, encode_report
from shared.kube.objects import Meta
from tests.builders.model_caches import NOW

FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed"}


def job(**end: Any) -> Job:
    conditions = [ObservedCondition(**end)] if end else []
    return Job(
        metadata=Meta(name="j", creation_timestamp="2026-06-01T12:00:00Z"), status=JobStatus(conditions=conditions)
    )


def pod(phase: str, text: str = "", *, ended: str = "", created: int = 0, **status: Any) -> JobPod:
    state = ContainerState(terminated=Terminated(reason=ended, message=text) if text or ended else None)
    meta = Meta(name=f"p{created}", creation_timestamp=f"2026-06-01T12:00:0{created}Z")
    containers = [ContainerStatus(state=state)]
    return JobPod(metadata=meta, status=PodStatus(phase=phase, container_statuses=containers, **status))


def report(**fields: Any) -> str:
    return encode_report(DownloadReport(**fields)).decode()


def outcome(found: Job, *pods: JobPod) -> Outcome:
    return outcome_of(found, pods, NOW)


def reason(found: Outcome) -> str:
    assert isinstance(found, DownloadFailed)
    return found.reason


def test_the_result_of_a_succeeded_pod_counts_before_its_job_is_complete() -> None:
    done = pod("Succeeded", report(revision="r1", downloaded_bytes=3, reused_bytes=4))
    assert outcome(job(type="Complete", status="True"), done) == DownloadCompleted("r1", 3, 4)
    assert outcome(job(), done) == DownloadCompleted("r1", 3, 4), "the Job's status follows a moment later"


@pytest.mark.parametrize("message", ["", "rubbish", report(reason="AuthDenied", message="no")])
def test_a_success_without_a_revision_is_a_malformed_result(message: str) -> None:
    assert reason(outcome(job(), pod("Succeeded", message))) == "ResultMalformed"


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (pod("Failed", report(reason="AuthDenied", message="no")), "AuthDenied"),
        (pod("Failed", "rubbish"), "ResultMalformed"),
        (pod("Failed", ended="OOMKilled"), "OutOfMemory"),
        (pod("Failed", reason="Evicted", message="the node ran out of disk"), "JobKilled"),
        (pod("Failed"), "JobFailed"),
    ],
)
def test_a_job_that_gave_up_has_the_reason_of_its_pod(failed: JobPod, why: str) -> None:
    assert reason(outcome(job(**FAILED), failed)) == why


def test_the_newest_pod_that_gave_a_reason_counts() -> None:
    old, new = (
        pod("Failed", report(reason=why, message="m"), created=second)
        for second, why in ((1, "AuthDenied"), (2, "RateLimited"))
    )
    assert reason(outcome(job(**FAILED), old, new, pod("Failed", created=3))) == "RateLimited"


def test_a_failed_job_without_a_reason_of_its_pods_has_the_reason_of_the_job() -> None:
    assert reason(outcome(job(**FAILED | {"reason": "DeadlineExceeded"}))) == "DeadlineExceeded"
    assert reason(outcome(job(**FAILED))) == "JobFailed"


def test_a_failed_pod_of_a_running_job_is_reported_until_the_next_pod_runs() -> None:
    failed = pod("Failed", report(reason="Unreachable", message="no answer"), created=1)
    assert outcome(job(), failed, pod("Running", created=2)) == DownloadRunning(is_downloading=True)
    again = outcome(job(), failed)
    assert again == DownloadRunning("Unreachable", "no answer; another pod continues soon")
