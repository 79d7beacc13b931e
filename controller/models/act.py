"""Applies what was decided for a model to its object."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from controller.edit import change_annotation, change_finalizers, replace_part
from controller.events import Events
from controller.keys import ModelKey
from controller.live import object_path
from controller.models.report import Report
from controller.models.view import ModelView
from controller.models.words import base_model_status, cache_status
from controller.ownership import RECORD_ANNOTATION, Ownership, record_of
from controller.placement.demand import Declared, Resolution
from shared.api.base_model import BaseModel
from shared.api.kinds import DEFINITIONS
from shared.api.meta import Condition, StockStatus
from shared.kube.transport import Kube

_DEFINITIONS = {d.kind: d for d in DEFINITIONS}


@dataclass(frozen=True, slots=True)
class ModelActor:
    """The writes, each resting on the version that was decided from."""

    kube: Kube
    ownership: Ownership
    events: Events
    now: Callable[[], datetime]

    async def add_finalizer(self, key: ModelKey, seen: Declared, name: str) -> None:
        """Hold the object's deletion until the nodes are clean."""
        wanted = [*seen.metadata.finalizers, name]
        await change_finalizers(self.kube, object_path(key), seen.metadata, wanted)

    async def remove_finalizer(self, key: ModelKey, seen: Declared, name: str) -> None:
        """Let the object go."""
        wanted = [f for f in seen.metadata.finalizers if f != name]
        await change_finalizers(self.kube, object_path(key), seen.metadata, wanted)

    async def record(self, key: ModelKey, seen: Declared, resolution: Resolution) -> None:
        """Write what the source was resolved to: all nodes fetch that from now on."""
        status = msgspec.structs.replace(
            seen.status,
            source=resolution.uri,
            resolved_revision=resolution.revision,
            manifest_digest=resolution.manifest,
            size=resolution.size_bytes,
            files=resolution.files,
        )
        await self._write(key, seen, status)

    async def tell(self, key: ModelKey, seen: Declared, view: ModelView, report: Report) -> None:
        """Write the status, unless it says so already, and an Event where readiness or its reason changed."""
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status: StockStatus
        if isinstance(seen, BaseModel):
            status = base_model_status(view, report, seen.status, stamp)
        else:
            status = cache_status(view, report, seen.status, stamp)
        if status == seen.status:
            return
        if not await self._write(key, seen, status):
            return
        before, after = _ready(seen.status), _ready(status)
        if after and (before is None or (before.status, before.reason) != (after.status, after.reason)):
            warn = report.overall == "Failed" or bool(report.failed)
            await self.events.tell(_DEFINITIONS[key.kind], seen.metadata, after.reason, after.message, warn=warn)

    async def _write(self, key: ModelKey, seen: Declared, status: StockStatus) -> bool:
        """Return whether the status changed; of another product's kind the record goes before it, alone."""
        path = object_path(key)
        if self.ownership.is_foreign(key.kind):
            record = record_of(status)
            if seen.metadata.annotations.get(RECORD_ANNOTATION) != record:
                await change_annotation(self.kube, path, seen.metadata, RECORD_ANNOTATION, record)
                return False
        return await replace_part(self.kube, f"{path}/status", seen.metadata, "status", status)


def _ready(status: StockStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type == "Ready"), None)
