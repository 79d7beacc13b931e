"""One turn for one model: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

import structlog

from controller.keys import ModelKey
from controller.models.act import ModelActor
from controller.models.decide import (
    Action,
    AddFinalizer,
    Again,
    RemoveFinalizer,
    Resolve,
    Reuse,
    WriteStatus,
    decide,
)
from controller.models.observe import ModelObserver
from controller.models.view import ModelView
from controller.placement.demand import Declared
from controller.resolver import Resolver

_log = structlog.get_logger()


@dataclass(slots=True)
class ModelReconciler:
    """Brings a declared model's object to what it shall say."""

    observer: ModelObserver
    actor: ModelActor
    resolver: Resolver
    now: Callable[[], datetime]
    finalizer_s: float

    async def reconcile(self, key: ModelKey) -> float | None:
        """Return in how many seconds to look again, or None. One write a turn: the next rests on its echo."""
        declared, view = self.observer.world.declared(key), self.observer.view(key)
        if declared is None or view is None:
            return None
        for action in decide(view, self.now(), self.finalizer_s):
            again = await self._apply(key, declared, view, action)
            if again is not None or not isinstance(action, WriteStatus):
                return again
        return self.resolver.wait_s(view.demand.uid, view.generation) or None

    async def _apply(self, key: ModelKey, declared: Declared, view: ModelView, action: Action) -> float | None:
        match action:
            case AddFinalizer():
                await self.actor.add_finalizer(key, declared)
            case RemoveFinalizer():
                await self.actor.remove_finalizer(key, declared)
                self.resolver.forget(view.demand.uid)
            case Resolve():
                return await self._resolve(key, declared, view)
            case Reuse(resolution):
                await self.actor.record(key, declared, resolution)
            case WriteStatus(report):
                await self.actor.tell(key, declared, view, report)
            case Again(after_s):
                return after_s
            case _:
                assert_never(action)
        return None

    async def _resolve(self, key: ModelKey, declared: Declared, view: ModelView) -> float | None:
        demand = view.demand
        resolution = await self.resolver.resolve(demand, view.generation)
        if resolution is None:
            trouble = self.resolver.trouble_of(demand.uid, view.generation)
            _log.warning("source_unresolved", model=demand.id, uri=demand.uri, reason=trouble and trouble.reason)
            return 0.0  # the next turn writes why
        _log.info("source_resolved", model=demand.id, uri=demand.uri, revision=resolution.revision)
        await self.actor.record(key, declared, resolution)
        return None
