"""The outcomes of Jobs; their states are recorded from a real API server."""

import pytest

from controller.claims.outcome import outcome_of
from controller.jobs.blocker import StillRunning
from controller.jobs.observed_jobs import ContainerState, JobPod, Terminated, Waiting
from shared.api.core import ObservedCondition
from shared.metadata.reading.termination_message import UNFINISHED, Reading, encode_reading
from tests.builders.claims import LLAMA, NOW, handed_in, job, job_pod

COMPLETE = ObservedCondition(type="Complete", status="True")
SPENT = ObservedCondition(
    type="Failed", status="True", reason="BackoffLimitExceeded", message="Job has reached the limit"
)
LATE = ObservedCondition(type="Failed", status="True", reason="DeadlineExceeded", message="Job was active longer")
ENDING = ObservedCondition(
    type="FailureTarget", status="True", reason="DeadlineExceeded", message="Job was active longer"
)
UNSCHEDULED = ObservedCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes are available"
)


def waiting(reason: str, message: str = "words", age_s: float = 0) -> JobPod:
    return job_pod("Pending", ContainerState(waiting=Waiting(reason=reason, message=message)), age_s=age_s)


def ended(phase: str = "Failed", **how: object) -> JobPod:
    return job_pod(phase, ContainerState(terminated=Terminated(**how)))  # type: ignore[arg-type]


def test_metadata_counts_before_the_job_is_complete() -> None:
    reading = Reading(metadata=LLAMA)
    assert outcome_of(job(), [handed_in(reading)], NOW) == reading
    assert outcome_of(job(COMPLETE), [handed_in(reading)], NOW) == reading


def test_the_last_result_of_a_failed_job_counts() -> None:
    reading = Reading(reason="Unreachable", message="config.json cannot be read: Input/output error")
    assert outcome_of(job(SPENT), [handed_in(reading, "Failed")], NOW) == reading
    assert outcome_of(job(), [handed_in(reading, "Failed")], NOW) == StillRunning()


@pytest.mark.parametrize(
    ("end", "pods", "reason"),
    [
        (SPENT, [ended(exit_code=137, reason="OOMKilled")], "OutOfMemory"),
        (SPENT, [ended(exit_code=137, reason="Error")], "JobKilled"),
        (SPENT, [ended(exit_code=1, reason="Error")], "JobFailed"),
        (SPENT, [], "JobFailed"),
        (SPENT, [job_pod("Failed", None, reason="Evicted", message="The node was low on memory")], "JobKilled"),
        (LATE, [], "DeadlineExceeded"),
        (ENDING, [ended(exit_code=137, reason="Error")], "DeadlineExceeded"),
        (COMPLETE, [], "JobFailed"),
        (None, [ended("Succeeded")], "JobFailed"),
        (None, [ended("Succeeded", message="{}")], "ResultMalformed"),
        (None, [ended("Succeeded", message="x" * 5000)], "ResultMalformed"),
    ],
)
def test_a_job_without_a_result_fails_with_a_reason(
    end: ObservedCondition | None, pods: list[JobPod], reason: str
) -> None:
    outcome = outcome_of(job(end), pods, NOW)
    assert isinstance(outcome, Reading)
    looked = True if reason == "ResultMalformed" else None  # only a program that ran to its end writes a result
    assert (outcome.reason, outcome.metadata, outcome.found) == (reason, None, looked)
    assert outcome.message


@pytest.mark.parametrize(
    ("end", "how", "reason"),
    [
        (SPENT, {"exit_code": 137, "reason": "OOMKilled"}, "OutOfMemory"),
        (SPENT, {"exit_code": 137, "reason": "Error"}, "JobKilled"),
        (LATE, {"exit_code": 137, "reason": "Error"}, "DeadlineExceeded"),
        (None, {"exit_code": 0}, "JobFailed"),
    ],
)
def test_an_early_report_proves_that_the_path_was_found(
    end: ObservedCondition | None, how: dict[str, object], reason: str
) -> None:
    early = encode_reading(Reading(reason=UNFINISHED, message="it is being read")).decode()
    outcome = outcome_of(job(end), [ended("Failed" if end else "Succeeded", message=early, **how)], NOW)
    assert isinstance(outcome, Reading)
    assert (outcome.reason, outcome.found) == (reason, True)


@pytest.mark.parametrize(
    ("pods", "reason", "phrase"),
    [
        ([], "NoPod", "a quota or policy"),
        ([job_pod("Pending", None, UNSCHEDULED)], "Unschedulable", "0/3 nodes are available"),
        ([waiting("ImagePullBackOff", "not found")], "ImageNotPulled", "namespace team must be able to pull it"),
        ([waiting("ErrImageNeverPull")], "ImageNotPulled", "ErrImageNeverPull"),
        ([waiting("ContainerCreating", age_s=40)], "MountPending", "-n team --for pod/larder-extract-1-x"),
        ([waiting("CreateContainerConfigError")], "ContainerNotStarted", "CreateContainerConfigError"),
    ],
)
def test_what_keeps_a_job_from_starting_is_reported_while_it_runs(pods: list[JobPod], reason: str, phrase: str) -> None:
    outcome = outcome_of(job(age_s=60), pods, NOW)
    assert isinstance(outcome, StillRunning)
    assert outcome.reason == reason
    assert phrase in outcome.message


@pytest.mark.parametrize("pods", [[], [waiting("ContainerCreating")], [waiting("PodInitializing")], [job_pod()]])
def test_a_job_that_just_started_is_still_running(pods: list[JobPod]) -> None:
    assert outcome_of(job(), pods, NOW) == StillRunning()


def test_a_job_whose_pod_was_deleted_is_still_running() -> None:
    assert outcome_of(job(age_s=60, failed=1), [], NOW) == StillRunning()
    assert outcome_of(job(age_s=60, terminating=1), [], NOW) == StillRunning()


def test_the_newest_pod_decides_the_outcome_of_a_job() -> None:
    old = waiting("ImagePullBackOff", age_s=100)
    assert outcome_of(job(age_s=200), [old, job_pod(age_s=10)], NOW) == StillRunning()
