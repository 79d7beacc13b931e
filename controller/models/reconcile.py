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
    Record,
    RemoveFinalizer,
    Resolve,
    WriteStatus,
    decide,
)
from controller.models.observe import OWN_FINALIZER, ModelObserver
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
        """Return in how many seconds to look again, or None. What follows a write rests on its echo."""
        declared, view = self.observer.world.declared(key), self.observer.view(key)
        if declared is None or view is None:
            await self._leave_alone(key)
            return None
        waits = []
        for action in decide(view, self.now(), self.finalizer_s):
            wrote, again_s = await self._apply(key, declared, view, action)
            if wrote:
                return None
            waits.append(again_s)
        waits.append(self.resolver.wait_s(view.demand.uid, view.generation))
        return min((wait_s for wait_s in waits if wait_s), default=None)

    async def _leave_alone(self, key: ModelKey) -> None:
        """Take our finalizer from a model that Larder does not manage any more: nothing else of it is ours."""
        other = self.observer.world.others.get(key)
        if other is not None and OWN_FINALIZER in other.metadata.finalizers:
            await self.actor.remove_finalizer(key, other, OWN_FINALIZER)

    async def _apply(self, key: ModelKey, declared: Declared, view: ModelView, action: Action) -> tuple[bool, float]:
        """Return whether the rest must wait for the echo, and in how many seconds to look again; 0 is never."""
        match action:
            case AddFinalizer():
                await self.actor.add_finalizer(key, declared, self.observer.finalizer_of(key.kind))
            case RemoveFinalizer():
                await self.actor.remove_finalizer(key, declared, self.observer.finalizer_of(key.kind))
                self.resolver.forget(view.demand.uid)
            case Resolve():
                self.resolver.start(key, view.demand, view.generation)
                return False, 0.0
            case Record(resolution):
                _log.info("source_resolved", model=view.demand.id, uri=resolution.uri, revision=resolution.revision)
                await self.actor.record(key, declared, resolution)
                self.resolver.recorded(view.demand.uid)
            case WriteStatus(report):
                await self.actor.tell(key, declared, view, report)
                return False, 0.0
            case Again(after_s):
                return False, after_s
            case _:
                assert_never(action)
        return True, 0.0
