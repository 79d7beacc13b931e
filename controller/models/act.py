"""Applies the actions decided for a model to its object."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controller.manager.conditions import is_transition
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import change_annotation, change_finalizers, replace_part
from controller.models.decide import RecordResolution
from controller.models.report import Report
from controller.models.revisions import EVENT_CONDITIONS
from controller.models.status import base_model_status, cache_status, recorded_status
from controller.models.view import ModelView
from controller.placement.demand_of_kind import Declared
from controller.state.keys import ModelKey
from controller.state.kinds.ownership import RECORD_ANNOTATION, Ownership, record_of
from controller.state.live_reader import object_path
from shared.api.base_model import BaseModel
from shared.api.kinds import DEFINITIONS
from shared.api.meta import ModelStatus, condition_of
from shared.kube.objects import timestamp
from shared.kube.transport import Kube

_DEFINITIONS = {d.kind: d for d in DEFINITIONS}


@dataclass(frozen=True, slots=True)
class ModelActor:
    """Writes to model objects, each based on the version that the decision saw."""

    kube: Kube
    ownership: Ownership
    events: EventRecorder
    now: Callable[[], datetime]

    async def add_finalizer(self, key: ModelKey, seen: Declared, name: str) -> None:
        """Hold the object's deletion until the nodes have removed its files."""
        wanted = [*seen.metadata.finalizers, name]
        await change_finalizers(self.kube, object_path(key), seen.metadata, wanted)

    async def remove_finalizer(self, key: ModelKey, seen: Declared, name: str) -> None:
        """Remove the finalizer, which releases the object."""
        wanted = [f for f in seen.metadata.finalizers if f != name]
        await change_finalizers(self.kube, object_path(key), seen.metadata, wanted)

    async def record(self, key: ModelKey, seen: Declared, record: RecordResolution) -> bool:
        """Record the resolution, which all nodes fetch from now on; return whether the status has it."""
        status = recorded_status(record, seen.status, self._stamp(), seen.metadata.generation)
        await self._write(key, seen, status)
        return self._pending_record(key, seen, status) is None

    async def write_report(self, key: ModelKey, seen: Declared, view: ModelView, report: Report) -> None:
        """Write the status for a report."""
        stamp = self._stamp()
        status: ModelStatus
        if isinstance(seen, BaseModel):
            status = base_model_status(view, report, seen.status, stamp)
        else:
            status = cache_status(view, report, seen.status, stamp)
        await self.publish(key, seen, status, warn=report.overall == "Failed" or bool(report.failed))

    async def publish(self, key: ModelKey, seen: Declared, status: ModelStatus, *, warn: bool) -> None:
        """Write a status if it differs, and an Event for each transition that users wait for."""
        if status == seen.status and not self.ownership.is_foreign(key.kind):
            return
        if not await self._write(key, seen, status):
            return
        definition, found = _DEFINITIONS[key.kind], seen.status.conditions
        await self.events.record_ready(definition, seen.metadata, found, status.conditions, warn=warn)
        for kind in EVENT_CONDITIONS:
            before, after = condition_of(found, kind), condition_of(status.conditions, kind)
            if after and after.status == "True" and is_transition(before, after):
                await self.events.record(definition, seen.metadata, kind, after.message, warn=False)

    def _stamp(self) -> str:
        return timestamp(self.now())

    async def _write(self, key: ModelKey, seen: Declared, status: ModelStatus) -> bool:
        """Return whether the status changed; for another product's kind, first write the record separately."""
        path, record = object_path(key), self._pending_record(key, seen, status)
        if record is not None:
            await change_annotation(self.kube, path, seen.metadata, RECORD_ANNOTATION, record)
            return False
        return await replace_part(self.kube, f"{path}/status", seen.metadata, "status", status)

    def _pending_record(self, key: ModelKey, seen: Declared, status: ModelStatus) -> str | None:
        """Return the record to write before a status, or None if none is needed or it is already there."""
        record = record_of(status) if self.ownership.is_foreign(key.kind) else None
        return record if record != seen.metadata.annotations.get(RECORD_ANNOTATION) else None
