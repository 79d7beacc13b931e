"""The training jobs of the cluster and their objects."""

from dataclasses import dataclass, field

from controller.state.index import Index
from controller.state.signal import Signal
from controller.trainingjobs.keys import TrainingJobKey
from controller.trainingjobs.outcome import has_ended
from controller.trainingjobs.training_pod import TrainingPod
from shared.api.training_job import TrainingJob
from shared.kube.cache import Cache
from shared.kube.objects import Key, Meta, Object

_DELAY_PER_REPLICA_S = 0.0005
_MAX_DELAY_S = 2.0


@dataclass(slots=True)
class TrainingJobs:
    """Caches jobs, and the pods and Services with our label.

    Args:
        changed: Signals a job that is new, changed, being deleted or gone.
        part_changed: Signals a job whose status, pod, claim or Service changed.
    """

    changed: Signal[TrainingJobKey] = field(default_factory=Signal, init=False)
    part_changed: Signal[TrainingJobKey] = field(default_factory=Signal, init=False)
    jobs: Cache[TrainingJob] = field(init=False)
    pods: Cache[TrainingPod] = field(init=False)
    services: Cache[Object] = field(init=False)
    _jobs_in: Index[str, Key] = field(default_factory=Index, init=False)  # by namespace
    _pods_of: Index[str, Key] = field(default_factory=Index, init=False)  # by the uid of the job

    def __post_init__(self) -> None:
        self.jobs = Cache(self._job_changed)
        self.pods = Cache(self._pod_changed)
        self.services = Cache(self._service_changed)

    def job(self, key: TrainingJobKey) -> TrainingJob | None:
        """Return a job, or None."""
        return self.jobs.get(Key(key.namespace, key.name))

    def active_in(self, namespace: str) -> int:
        """Return how many jobs of a namespace have not ended."""
        found = (self.jobs.get(key) for key in self._jobs_in.of(namespace))
        return sum(job is not None and not has_ended(job.status) for job in found)

    def pods_of(self, uid: str) -> list[TrainingPod]:
        """Return the pods that a job controls."""
        found = (self.pods.get(key) for key in self._pods_of.of(uid))
        return [pod for pod in found if pod is not None]

    def delay_s(self, key: TrainingJobKey) -> float:
        """Return how long changes of a job's objects are batched, so that one reconcile of a large job handles many."""
        job = self.job(key)
        replicas = sum(spec.replicas for spec in job.spec.replica_specs.values()) if job is not None else 0
        return min(replicas * _DELAY_PER_REPLICA_S, _MAX_DELAY_S)

    def signal_owner(self, found: Object) -> None:
        """Signal the job that controls an object, if any does."""
        for owner in _job_owners(found.metadata):
            self.part_changed.emit(TrainingJobKey(found.metadata.namespace, str(owner.get("name"))))

    def _service_changed(self, before: Object | None, after: Object | None) -> None:
        known = after or before
        if known is not None:
            self.signal_owner(known)

    def _job_changed(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        known = after or before
        if known is None:
            return
        namespace = known.metadata.namespace
        self._jobs_in.update(known.key, (namespace,) if before else (), (namespace,) if after else ())
        signal = self.part_changed if _wants_the_same(before, after) else self.changed
        signal.emit(TrainingJobKey(*known.key))

    def _pod_changed(self, before: TrainingPod | None, after: TrainingPod | None) -> None:
        known = after or before
        if known is not None:
            self._pods_of.update(known.key, _controllers(before), _controllers(after))
            self.signal_owner(known)


def _wants_the_same(before: TrainingJob | None, after: TrainingJob | None) -> bool:
    """Return whether only the status differs, in which case a change must not trigger the next reconcile at once."""
    if before is None or after is None:
        return False
    old, new = before.metadata, after.metadata
    return (old.generation, old.deletion_timestamp) == (new.generation, new.deletion_timestamp)


def _controllers(found: Object | None) -> list[str]:
    return [str(owner.get("uid")) for owner in _job_owners(found.metadata)] if found is not None else []


def _job_owners(meta: Meta) -> list[dict[str, object]]:
    return [o for o in meta.owner_references if o.get("controller") is True and o.get("kind") == "TrainingJob"]
