"""TrainingJobs, their pods and claims as a reconcile sees them."""

from datetime import UTC, datetime
from typing import Any

from controller.jobs.observed_jobs import ContainerState, Terminated
from controller.provisioning.failed_creations import FailedCreations
from controller.trainingjobs.keys import TrainingJobKey
from controller.trainingjobs.observe import TrainingJobObserver
from controller.trainingjobs.recent_creations import RecentCreations
from controller.trainingjobs.state import TrainingJobs
from controller.trainingjobs.training_pod import TrainingContainer, TrainingPod, TrainingPodStatus
from controller.trainingjobs.view import QueueState, TrainingJobView
from shared.api.core import ClaimStatus, PersistentVolumeClaim, PlainCondition
from shared.api.training_job import ReplicaSpec, RunPolicy, TrainingJob, TrainingJobSpec, TrainingJobStatus
from shared.kube.cache import Cache
from shared.kube.objects import Meta

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-06-01T12:00:00Z"
EARLIER = "2026-06-01T11:50:00Z"
KEY = TrainingJobKey("team", "tj")
TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def replica_spec(replicas: int = 1, *, claims: bool = True, **fields: Any) -> ReplicaSpec:
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    known: dict[str, Any] = {"template": template, "volume_claim_templates": [TEMPLATE] if claims else []}
    return ReplicaSpec(replicas=replicas, **(known | fields))


def training_job(
    status: TrainingJobStatus | None = None,
    *,
    name: str = "tj",
    deleted: bool = False,
    run: RunPolicy | None = None,
    success: Any = "Default",
    **roles: ReplicaSpec,
) -> TrainingJob:
    meta = Meta(
        name=name,
        namespace="team",
        uid="u1",
        resource_version="1",
        generation=3,
        deletion_timestamp=STAMP if deleted else None,
    )
    spec = TrainingJobSpec(
        replica_specs=roles or {"Worker": replica_spec()}, run_policy=run or RunPolicy(), success_policy=success
    )
    return TrainingJob(metadata=meta, spec=spec, status=status or TrainingJobStatus(start_time=EARLIER))


def owned_by(uid: str = "u1", name: str = "tj", kind: str = "TrainingJob") -> list[dict[str, Any]]:
    return [{"apiVersion": "larder.dev/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}]


def pod(
    name: str = "tj-worker-0",
    phase: str = "Running",
    *,
    code: int = 0,
    restarts: int = 0,
    created: str = EARLIER,
    leaving: bool = False,
    disrupted: bool = False,
    owners: list[dict[str, Any]] | None = None,
) -> TrainingPod:
    meta = Meta(
        name=name,
        namespace="team",
        uid=f"uid-{name}",
        resource_version="1",
        creation_timestamp=created,
        deletion_timestamp=STAMP if leaving else None,
        owner_references=owned_by() if owners is None else owners,
    )
    end = Terminated(exit_code=code, reason="Error") if code else None
    container = TrainingContainer(name="main", restart_count=restarts, state=ContainerState(terminated=end))
    conditions = [PlainCondition(type="DisruptionTarget", status="True")] if disrupted else []
    status = TrainingPodStatus(phase=phase, container_statuses=[container], conditions=conditions)
    return TrainingPod(metadata=meta, status=status)


def claim(
    name: str = "data-tj-worker-0",
    phase: str = "Bound",
    *,
    leaving: bool = False,
    owners: list[dict[str, Any]] | None = None,
) -> PersistentVolumeClaim:
    meta = Meta(
        name=name,
        namespace="team",
        uid=f"uid-{name}",
        resource_version="1",
        deletion_timestamp=STAMP if leaving else None,
        owner_references=owned_by() if owners is None else owners,
    )
    return PersistentVolumeClaim(metadata=meta, status=ClaimStatus(phase=phase))


class Observed:
    """An observer with caches to fill."""

    def __init__(self, job: TrainingJob | None = None) -> None:
        self.now = 0.0
        self.jobs, self.recent = TrainingJobs(), RecentCreations(lambda: self.now)
        self.claims: Cache[PersistentVolumeClaim] = Cache(lambda *_: None)
        self.failures: FailedCreations[Any] = FailedCreations(lambda: self.now)
        self.queue = QueueState()
        self.observer = TrainingJobObserver(self.jobs, self.claims, self.recent, self.failures, lambda _: self.queue)
        if job is not None:
            self.jobs.jobs.upsert(job)

    def view(self, *found: TrainingPod | PersistentVolumeClaim) -> TrainingJobView:
        """Return the view of the job with these pods and claims."""
        for one in found:
            self.jobs.pods.upsert(one) if isinstance(one, TrainingPod) else self.claims.upsert(one)
        view = self.observer.view(KEY)
        assert view is not None
        return view
