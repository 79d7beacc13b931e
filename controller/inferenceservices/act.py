"""Applies the actions decided for a service."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controller.claims.contention import CLAIM_IN_USE
from controller.inferenceservices.decide import ApplyObject, RemoveObject
from controller.inferenceservices.objects import path_of
from controller.inferenceservices.report import READY
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import replace_part, require_current
from shared.api.inference_service import InferenceService, InferenceServiceStatus
from shared.api.kinds import INFERENCE_SERVICE
from shared.api.meta import condition_of
from shared.json_object import Json
from shared.kube.edit import apply, delete_if_present
from shared.kube.objects import Meta
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ServiceActor:
    """Writes by server-side apply, which sets our own fields and leaves all others."""

    kube: Kube
    events: EventRecorder
    now: Callable[[], datetime]

    async def require_current(self, service: InferenceService) -> None:
        """Raise StaleError if the service is not the one that was read any more: its pods would be replaced twice."""
        await require_current(self.kube, INFERENCE_SERVICE.path_to(service.metadata), service.metadata)

    async def apply(self, about: Meta, action: ApplyObject) -> Json:
        """Apply a manifest and return the object. Raises KubeError."""
        path = path_of(action.kind, about.namespace, about.name)
        return await apply(self.kube, path, action.manifest, action.manager)

    async def remove(self, about: Meta, action: RemoveObject) -> None:
        """Delete an object that Larder created. Raises KubeError."""
        await delete_if_present(self.kube, path_of(action.kind, about.namespace, about.name), action.uid)

    async def write_status(self, service: InferenceService, status: InferenceServiceStatus) -> None:
        """Write the status if it differs, and an Event when Ready changes."""
        if status == service.status:
            return
        meta = service.metadata
        if not await replace_part(self.kube, f"{INFERENCE_SERVICE.path_to(meta)}/status", meta, "status", status):
            return
        ready = condition_of(status.conditions, READY)
        warn = ready is not None and ready.status != "True" and ready.reason in _WARNED
        before = service.status.conditions
        await self.events.record_ready(INFERENCE_SERVICE, meta, before, status.conditions, warn=warn)


_WARNED = frozenset(
    (
        CLAIM_IN_USE,
        "ContainerNotStarted",
        "ModelNotFound",
        "NameConflict",
        "NamespaceNotAllowed",
        "Refused",
        "ReplicaFailure",
        "Stalled",
        "Unschedulable",
    )
)
