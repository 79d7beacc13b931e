"""Metrics of training jobs; none has a label per job."""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.trainingjobs.report import READY
from shared.api.meta import condition_of
from shared.api.training_job import TrainingJob

_NEW = "New"
_REPLICA_STATES = ("active", "succeeded", "failed", "waiting_for_volumes")


def job_gauges(jobs: Iterable[TrainingJob]) -> Iterator[Metric]:
    """Yield the number of jobs by the reason of their Ready condition, and the number of replicas by state."""
    reasons, replicas = Counter[str](), Counter[str]()
    for job in jobs:
        ready = condition_of(job.status.conditions, READY)
        reasons[ready.reason if ready is not None else _NEW] += 1
        for status in job.status.replica_statuses.values():
            replicas.update({state: getattr(status, state) for state in _REPLICA_STATES})
    family = GaugeMetricFamily("larder_training_jobs", "TrainingJobs by state.", labels=["state"])
    for reason, count in sorted(reasons.items()):
        family.add_metric([reason], count)
    yield family
    family = GaugeMetricFamily("larder_training_replicas", "Replicas of TrainingJobs by state.", labels=["state"])
    for state in _REPLICA_STATES:
        family.add_metric([state], replicas[state])
    yield family
