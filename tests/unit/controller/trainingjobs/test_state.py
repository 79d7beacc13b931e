"""Which changes of a job are reconciled at once, and which are batched."""

from typing import Any

import msgspec
import pytest

from controller.trainingjobs.keys import TrainingJobKey
from controller.trainingjobs.state import TrainingJobs
from shared.api.training_job import TrainingJob, TrainingJobStatus
from tests.builders.training_jobs import KEY, STAMP, pod, replica_spec, training_job


class Heard:
    """Jobs with a list of their signals."""

    def __init__(self) -> None:
        self.jobs, self.at_once, self.collected = TrainingJobs(), list[TrainingJobKey](), list[TrainingJobKey]()
        self.jobs.changed.listen(self.at_once.append)
        self.jobs.part_changed.listen(self.collected.append)

    def forget(self) -> None:
        self.at_once.clear()
        self.collected.clear()


def with_metadata(job: TrainingJob, **fields: Any) -> TrainingJob:
    known = {"resource_version": "2"} | fields
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, **known))


@pytest.mark.parametrize(
    ("after", "at_once"),
    [
        (with_metadata(training_job(TrainingJobStatus(queue_position=512))), False),
        (with_metadata(training_job(), labels={"team": "a"}), False),
        (with_metadata(training_job(), generation=4), True),
        (with_metadata(training_job(), uid="u2"), True),
        (with_metadata(training_job(), deletion_timestamp=STAMP), True),
    ],
    ids=["status", "metadata", "spec", "another job", "deletion"],
)
def test_a_change_of_the_status_is_collected_with_those_of_the_pods(after: TrainingJob, *, at_once: bool) -> None:
    heard = Heard()
    heard.jobs.jobs.upsert(training_job())
    assert heard.at_once == [KEY]
    heard.forget()
    heard.jobs.jobs.upsert(after)
    assert (set(heard.at_once), set(heard.collected)) == (({KEY}, set()) if at_once else (set(), {KEY}))
    heard.forget()
    heard.jobs.jobs.remove(after.key)
    assert heard.at_once == [KEY]


def test_changes_of_pods_are_collected_for_longer_the_larger_the_job_is() -> None:
    heard = Heard()
    for replicas, delay_s in ((1, 0.0005), (2000, 1.0), (5000, 2.0)):
        job = training_job(Worker=replica_spec(replicas))
        heard.jobs.jobs.upsert(with_metadata(job, resource_version=str(replicas)))
        assert heard.jobs.delay_s(KEY) == delay_s
    heard.forget()
    heard.jobs.pods.upsert(pod())
    assert (heard.at_once, heard.collected) == ([], [KEY])
