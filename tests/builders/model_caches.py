"""ModelCaches as a reconcile sees them."""

from datetime import UTC, datetime
from typing import Any

from controller.jobs.observed_jobs import ContainerState, ContainerStatus, Job, JobPod, JobStatus, PodStatus, Terminated
from controller.modelcaches.objects import CACHE_LABEL, TEMPLATE_ANNOTATION, ClaimTemplate
from controller.modelcaches.view import ModelCacheView
from controller.placement.demand import Resolution
from controller.placement.demand_of_kind import model_cache_demand
from shared.api.core import ClaimSpec, ClaimStatus, ObservedCondition, PersistentVolumeClaim
from shared.api.model_cache import ModelCache, ModelCacheSpec, ModelCacheStatus
from shared.download_report import DownloadReport, encode_report
from shared.kube.objects import Meta

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-06-01T12:00:00Z"
URI = "s3://models/llama"
RESOLVED = Resolution(URI, "r1", "d" * 64, 1000, 3)


def cache(*, deleted: bool = False, status: ModelCacheStatus | None = None, **spec: Any) -> ModelCache:
    meta = Meta(
        name="llama",
        namespace="team",
        uid="u1",
        generation=2,
        creation_timestamp=STAMP,
        deletion_timestamp=STAMP if deleted else None,
        finalizers=["larder.dev/finalizer"],
    )
    return ModelCache(
        metadata=meta, spec=ModelCacheSpec(**({"storage_uri": URI} | spec)), status=status or ModelCacheStatus()
    )


def claim(phase: str = "Bound", *, ours: bool = True, **spec: Any) -> PersistentVolumeClaim:
    owners = [{"kind": "ModelCache", "uid": "u1"}] if ours else []
    meta = Meta(
        name="llama",
        namespace="team",
        uid="c1",
        creation_timestamp=STAMP,
        labels={CACHE_LABEL: "u1"} if ours else {},
        annotations={TEMPLATE_ANNOTATION: ClaimTemplate("team", {}, {}).digest} if ours else {},
        owner_references=owners,
    )
    found = ClaimSpec(**({"access_modes": ["ReadWriteOnce"], "storage_class_name": "fast"} | spec))
    return PersistentVolumeClaim(metadata=meta, spec=found, status=ClaimStatus(phase=phase))


def view(found: ModelCache | None = None, **fields: Any) -> ModelCacheView:
    found = found or cache()
    known: dict[str, Any] = {"claim_name": "llama", "answer": RESOLVED}
    if fields.get("claim") is not None:
        known["is_ours"] = bool(fields["claim"].metadata.owner_references)
    return ModelCacheView(cache=found, demand=model_cache_demand(found), **(known | fields))


def job(end: str = "", reason: str = "") -> Job:
    conditions = [ObservedCondition(type=end, status="True", reason=reason)] if end else []
    meta = Meta(name="larder-fill-1", namespace="team", creation_timestamp=STAMP)
    return Job(metadata=meta, status=JobStatus(conditions=conditions))


def pod(phase: str, report: DownloadReport | None = None, reason: str = "") -> JobPod:
    message = encode_report(report).decode() if report else ""
    ended = Terminated(reason=reason, message=message) if phase in ("Succeeded", "Failed") else None
    status = PodStatus(phase=phase, container_statuses=[ContainerStatus(state=ContainerState(terminated=ended))])
    return JobPod(metadata=Meta(name="p", namespace="team", uid="p1", creation_timestamp=STAMP), status=status)
