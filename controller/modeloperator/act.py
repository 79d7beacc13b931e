"""Applies the actions decided for a Model."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controller.downloads.job import DownloadJobSettings
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import change_spec, replace_part, require_current
from controller.modeloperator.actions import WriteModelStatus
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.objects import (
    ModelDownload,
    claim_manifest,
    download_manifest,
    is_of,
)
from controller.modeloperator.report import status_of
from controller.modeloperator.source import source_of
from controller.provisioning.exclusive_names import create_exclusively
from shared.api.core import PersistentVolumeClaim, claims_in, jobs_in
from shared.api.kinds import MODEL
from shared.api.model import Model
from shared.kube.edit import create_if_missing
from shared.kube.objects import timestamp
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ModelOperatorActor:
    """Writes to the API server; every creation may be repeated."""

    kube: Kube
    events: EventRecorder
    jobs: DownloadJobSettings
    metrics: ModelDownloadMetrics
    now: Callable[[], datetime]

    async def provision(self, model: Model) -> None:
        """Create the claim unless it exists.

        Raises:
            Refused: The name is taken by a claim that is not Larder's, or the API server refuses the claim.
            KubeError: The request failed; another attempt may succeed.
        """
        await create_exclusively(
            self.kube,
            claims_in(model.metadata.namespace),
            claim_manifest(model),
            PersistentVolumeClaim,
            lambda found: is_of(found, model.metadata),
            "delete it if nobody needs its data, or create the Model under another name",
        )

    async def grow(self, claim: PersistentVolumeClaim | None, size: str) -> None:
        """Make the claim that was read request `size`. Raises StaleError, Refused, NotFound, KubeError."""
        if claim is None:
            return
        meta = claim.metadata
        fields = {"resources": {"requests": {"storage": size}}}
        await change_spec(self.kube, f"{claims_in(meta.namespace)}/{meta.name}", meta, fields)

    async def require_current(self, model: Model) -> None:
        """Raise StaleError if the Model is not the one that was read any more."""
        await require_current(self.kube, MODEL.path_to(model.metadata), model.metadata)

    async def start_job(self, model: Model, download: ModelDownload) -> None:
        """Create the Job unless it exists. Raises KubeError."""
        body = download_manifest(model, download, source_of(model.spec), self.jobs)
        await create_if_missing(self.kube, jobs_in(model.metadata.namespace), body)

    async def write_status(self, model: Model, write: WriteModelStatus) -> None:
        """Write the status if it differs, and an Event for a change of the condition Ready."""
        status = status_of(model, write, timestamp(self.now()))
        if status == model.status:
            return
        meta = model.metadata
        await replace_part(self.kube, f"{MODEL.path_to(meta)}/status", meta, "status", status)
        if write.ended is not None:
            self.metrics.count(model.key, write.ended)
        warn = write.phase == "Failed" or write.reason in ("ClaimRefused", "JobRefused", "NameConflict")
        await self.events.record_ready(MODEL, meta, model.status.conditions, status.conditions, warn=warn)
