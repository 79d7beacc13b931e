"""Applies the actions decided for a model on a claim."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.claims.decide import StartJob, WriteClaimStatus
from controller.claims.job import JobSettings, job_manifest
from controller.claims.status import claim_status
from controller.claims.view import ClaimView
from controller.manager.write import change_spec
from controller.models.act import ModelActor
from controller.state.keys import ModelKey
from controller.state.live_reader import object_path
from shared.api.base_model import BaseModel
from shared.api.core import jobs_in
from shared.kube.edit import create_if_missing
from shared.kube.objects import timestamp
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ClaimActor:
    """Writes the Job in the claim's namespace, and the model's spec and status."""

    kube: Kube
    models: ModelActor
    jobs: JobSettings

    async def start_job(self, key: ModelKey, view: ClaimView, action: StartJob) -> None:
        """Create the Job unless it exists. Raises KubeError."""
        body = job_manifest(key, view.demand.uid, view.place, action.request, action.holder, self.jobs)
        await create_if_missing(self.kube, jobs_in(view.place.namespace), body)

    async def write_spec(self, key: ModelKey, model: BaseModel, fields: Mapping[str, Any]) -> bool:
        """Set fields of the spec that were empty, or written by Larder; return whether that changed it."""
        return await change_spec(self.kube, object_path(key), model.metadata, fields)

    async def write_status(self, key: ModelKey, model: BaseModel, view: ClaimView, action: WriteClaimStatus) -> None:
        """Write the status if it differs."""
        status = claim_status(view, action, timestamp(self.models.now()))
        await self.models.publish(key, model, status, warn=action.claim_result.state == "Failed")
