"""What `larder why` reports about a TrainingJob."""

from typing import Any

import pytest

from controller.cli.why.command import render
from controller.cli.why.findings import Severity
from controller.cli.why.kinds import ObservedPod
from controller.cli.why.objects import ObservedObject, ObservedTree
from controller.cli.why.subject import parse_subject
from controller.cli.why.training_jobs import why_training_job
from tests.builders.cluster import meta
from tests.builders.why import seen

TITLE = "TrainingJob team/tj"


def job(reason: str, message: str = "", *, ready: bool = False, ended: str = "", **fields: Any) -> ObservedTree:
    conditions = [
        {"type": "Ready", "status": str(ready), "reason": reason, "message": message, "observedGeneration": 1}
    ]
    if ended:
        conditions.append({"type": ended, "status": "True"})
    status = {"conditions": conditions, "replicaStatuses": {"Worker": {"active": 2, "waitingForVolumes": 3}}}
    return ObservedTree("TrainingJob", ObservedObject(metadata=meta("tj", namespace="team"), status=status), **fields)


@pytest.mark.parametrize(
    ("reason", "severity"),
    [
        ("Queued", Severity.WAIT),
        ("Starting", Severity.WAIT),
        ("Terminating", Severity.WAIT),
        ("Suspended", Severity.STOP),
        ("Refused", Severity.STOP),
        ("NameConflict", Severity.STOP),
        ("VolumeNotBound", Severity.STOP),
    ],
)
def test_the_reason_of_a_job_decides_whether_to_wait_or_to_act(reason: str, severity: Severity) -> None:
    found = why_training_job(job(reason, "2 of 5 pods run"), seen())
    (finding,) = [finding for finding in found.findings if finding.about == TITLE]
    assert (finding.severity, finding.reason, finding.message) == (severity, reason, "2 of 5 pods run")
    assert found.summary == reason
    assert not found.failed
    assert "role Worker: Replicas: 2 run, 3 wait for claims" in render(found)


def test_a_job_that_exceeded_its_deadline_has_a_remedy_of_its_own() -> None:
    found = why_training_job(job("DeadlineExceeded", "it took too long", ended="Failed"), seen())
    (finding,) = [finding for finding in found.findings if finding.about == TITLE]
    assert finding.remedy == "recreate the job, perhaps with a longer activeDeadlineSeconds"


def test_pods_that_do_not_run_are_explained_until_the_job_has_ended() -> None:
    pods = (ObservedPod(metadata=meta("tj-worker-0", namespace="team", labels={"larder.dev/training-job": "tj"})),)
    assert "pod/tj-worker-0" in render(why_training_job(job("Starting", pods=pods), seen()))
    ended = why_training_job(job("PodFailed", "exit code 2", ended="Failed", pods=pods), seen())
    assert ended.failed
    assert "pod/tj-worker-0" not in render(ended)
    done = why_training_job(job("Succeeded", ready=True, ended="Succeeded", pods=pods), seen())
    assert (done.summary, done.failed) == ("no problems found", False)


def test_a_job_that_the_controller_has_not_seen_names_the_setting_to_check() -> None:
    root = ObservedObject(metadata=meta("tj", namespace="team"))
    found = why_training_job(ObservedTree("TrainingJob", root), seen())
    assert found.summary == "NotObserved"
    assert "that trainingJobs.enabled is true in the chart" in render(found)


@pytest.mark.parametrize("word", ["tj", "trainingjob", "TrainingJobs", "trainingjobs.larder.dev"])
def test_a_training_job_is_found_by_every_name_of_its_kind(word: str) -> None:
    assert parse_subject(f"{word}/x").within("team").kind == "TrainingJob"
