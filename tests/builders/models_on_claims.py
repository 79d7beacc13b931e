"""Models (`models.example.com`) as a reconcile sees them."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.jobs.observed_jobs import Job, JobStatus
from controller.modeloperator.objects import (
    MODEL_LABEL,
    SETTINGS_LABEL,
    SIZE_LABEL,
    WANTED_LABEL,
    ModelDownload,
    claim_name,
    job_name,
    settings_digest,
)
from controller.modeloperator.source import wanted_digest
from controller.modeloperator.view import ModelObjectView
from shared.api.core import ClaimSpec, ClaimStatus, ObservedCondition, PersistentVolumeClaim, StorageRequests
from shared.api.model import Model, ModelObjectStatus, ModelSpec
from shared.kube.objects import Meta

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-06-01T12:00:00Z"
SPEC: dict[str, Any] = {
    "source": {"huggingFace": {"repoId": "org/llama", "revision": "main"}},
    "storage": {"storageClass": "fast", "size": "20Gi"},
    "version": "3.1",
    "credentialsSecret": "hub",
}
OWNERS = [{"kind": "Model", "uid": "u1", "controller": True}]


def model(status: ModelObjectStatus | None = None, *, deleted: bool = False, **spec: Any) -> Model:
    meta = Meta(
        name="llama",
        namespace="team",
        uid="u1",
        generation=2,
        creation_timestamp=STAMP,
        deletion_timestamp=STAMP if deleted else None,
    )
    found = msgspec.convert(SPEC | spec, ModelSpec)
    return Model(metadata=meta, spec=found, status=status or ModelObjectStatus())


def claim(
    phase: str = "Bound", *, ours: bool = True, deleted: bool = False, size: str = "20Gi", capacity: str = "20Gi"
) -> PersistentVolumeClaim:
    meta = Meta(
        name=claim_name(model().metadata),
        namespace="team",
        uid="c1",
        creation_timestamp=STAMP,
        deletion_timestamp=STAMP if deleted else None,
        labels={MODEL_LABEL: "u1"} if ours else {},
        owner_references=OWNERS if ours else [],
    )
    asked = StorageRequests(requests={"storage": size})
    spec = ClaimSpec(access_modes=["ReadWriteOnce"], resources=asked, storage_class_name="fast")
    status = ClaimStatus(phase=phase, capacity={"storage": capacity})
    return PersistentVolumeClaim(metadata=meta, spec=spec, status=status)


def job(end: str = "", reason: str = "", wanted: str = "", size: str = "20Gi", **meta: Any) -> Job:
    label = ModelDownload(wanted or wanted_digest(model().spec), "c1").label
    settings = settings_digest(model().spec)
    labels = {MODEL_LABEL: "u1", WANTED_LABEL: label, SIZE_LABEL: size, SETTINGS_LABEL: settings}
    known: dict[str, Any] = {"labels": labels, "owner_references": OWNERS}
    conditions = [ObservedCondition(type=end, status="True", reason=reason)] if end else []
    found = Meta(
        name=job_name(model().metadata), namespace="team", uid="j1", creation_timestamp=STAMP, **(known | meta)
    )
    return Job(metadata=found, status=JobStatus(conditions=conditions))


def begun(wanted: str = "", **fields: Any) -> ModelObjectStatus:
    """Return the status of a Model whose first download to the claim has begun."""
    return ModelObjectStatus(claim_uid="c1", root_download=wanted or wanted_digest(model().spec), **fields)


def served(wanted: str = "", **fields: Any) -> ModelObjectStatus:
    """Return the status of a Model that is complete on the claim."""
    return ModelObjectStatus(
        phase="Ready", claim_uid="c1", downloaded=wanted or wanted_digest(model().spec), progress=100, **fields
    )


def view(found: Model | None = None, **fields: Any) -> ModelObjectView:
    found = found or model()
    return ModelObjectView(model=found, **({"wanted": wanted_digest(found.spec)} | fields))
