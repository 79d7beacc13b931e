"""Reconciles the metadata of one model on nodes: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from controller.manager.actions import Requeue, WriteSpec
from controller.manager.write import StaleError, change_spec
from controller.metadata.decide import ReadSourceMetadata, WriteMetadata, decide
from controller.metadata.fill import Fields
from controller.metadata.observe import observe
from controller.metadata.reader import MetadataReader
from controller.metadata.status import described_status
from controller.metadata.view import MetadataView
from controller.models.act import ModelActor
from controller.placement.demand_of_kind import Declared
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.live_reader import object_path
from shared.kube.errors import NotAdmitted, Refused
from shared.kube.objects import timestamp

_REFUSED = timedelta(minutes=10)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MetadataReconciler:
    """Keeps the metadata in a model's status and spec in line with its files."""

    cluster: ClusterState
    reader: MetadataReader
    actor: ModelActor
    now: Callable[[], datetime]
    # fields that the API server refused, and when to try again
    _refused: dict[ModelKey, tuple[Fields, datetime]] = field(default_factory=dict, init=False)

    async def reconcile(self, key: ModelKey) -> float | None:
        """Reconcile a model; return the delay in seconds until the next run, or None.

        A write ends the run; the watch delivers the change and so triggers the next run.
        """
        declared, view = self.cluster.declared(key), observe(self.cluster, self.reader, key)
        if declared is None or view is None:
            self.reader.forget(key)
            self._refused.pop(key, None)
            return None
        try:
            return await self._apply(key, declared, view)
        except StaleError:
            return None  # the model's other reconciler wrote first; the watch triggers another run

    async def _apply(self, key: ModelKey, declared: Declared, view: MetadataView) -> float | None:
        delays_s = list[float]()
        for action in decide(view, self.now()):
            match action:
                case ReadSourceMetadata(identity):
                    if view.target is not None:
                        self.reader.start(key, view.demand, view.target, identity)
                case WriteSpec(fields):
                    if await self._fill(key, view.demand.id, declared, fields):
                        return None
                    if again_s := self._fill_again_s(key):
                        delays_s.append(again_s)
                case WriteMetadata(condition, metadata):
                    stamp = timestamp(self.now())
                    status = described_status(declared.status, condition, metadata, stamp, view.generation)
                    await self.actor.publish(key, declared, status, warn=False)
                    if view.result is not None:
                        self.reader.discard(key)
                case Requeue(after_s):
                    delays_s.append(after_s)
                case _:
                    assert_never(action)
        return min(delays_s, default=None)

    async def _fill(self, key: ModelKey, model: str, declared: Declared, fields: Fields) -> bool:
        """Return whether the spec changed; another product's kind may reject values, but the status has them all."""
        refused, _ = self._refused.get(key, ({}, None))
        if refused == fields and self._fill_again_s(key):
            return False
        self._refused.pop(key, None)
        try:
            return await change_spec(self.actor.kube, object_path(key), declared.metadata, fields)
        except NotAdmitted:
            raise
        except Refused as error:
            _log.warning("metadata_not_filled", model=model, error=str(error))
            self._refused[key] = fields, self.now() + _REFUSED
            return False

    def _fill_again_s(self, key: ModelKey) -> float:
        """Return the seconds until refused fields are written again; a policy may change without an event."""
        _, again = self._refused.get(key, ({}, self.now()))
        return max(0.0, (again - self.now()).total_seconds())
