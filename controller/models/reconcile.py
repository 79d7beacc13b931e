"""Reconciles one model: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

import structlog

from controller.manager.actions import AddFinalizer, RemoveFinalizer, Requeue, Resolve
from controller.models.act import ModelActor
from controller.models.decide import Action, CheckDrift, DiscardAnswer, RecordResolution, WriteStatus, decide
from controller.models.drift import DriftChecker
from controller.models.finalizers import OWN_FINALIZER, finalizer_of
from controller.models.observe import ModelObserver
from controller.models.resolver import Resolver
from controller.models.users import LiveUsers, live_users
from controller.models.view import ModelView
from controller.placement.demand_of_kind import Declared
from controller.state.keys import ModelKey
from shared.errors import LarderError

_log = structlog.get_logger()


@dataclass(slots=True)
class ModelReconciler:
    """Drives a declared model's object to its desired state."""

    observer: ModelObserver
    actor: ModelActor
    resolver: Resolver
    drift: DriftChecker
    users: LiveUsers
    now: Callable[[], datetime]
    finalizer_s: float
    _uids: dict[ModelKey, str] = field(default_factory=dict, init=False)

    async def reconcile(self, key: ModelKey) -> float | None:
        """Reconcile a model; return the delay in seconds until the next run, or None.

        A write ends the run; the watch delivers the change and so triggers the next run.
        """
        declared, view = self.observer.cluster.declared(key), self.observer.view(key)
        self._forget_previous(key, view.demand.uid if view else "")
        if declared is None or view is None:
            await self._release(key)
            return None
        waits, actions = list[float](), decide(view, self.now(), self.finalizer_s)
        if RemoveFinalizer() in actions:
            view = await self._with_live_users(view)
            actions = decide(view, self.now(), self.finalizer_s)
        for action in actions:
            wrote, requeue_s = await self._apply(key, declared, view, action)
            if wrote:
                return None
            waits.append(requeue_s)
        waits.append(self.resolver.wait_s(view.demand.uid, view.generation, view.demand.refresh))
        waits.append(view.drift_check_in_s or 0.0)
        return min((wait_s for wait_s in waits if wait_s), default=None)

    async def take_over(self) -> None:
        """Drop the source answers from an earlier leadership of this replica."""
        self.resolver.discard_answers()

    async def stop(self) -> None:
        """Cancel the work that runs outside the queue."""
        await self.resolver.stop()
        await self.drift.stop()

    async def _with_live_users(self, view: ModelView) -> ModelView:
        """Return the view with the current users of the model, or why they are unknown."""
        try:
            return replace(view, users=await live_users(self.users, self.observer.cluster, view.demand))
        except LarderError as error:
            _log.warning("users_not_read", model=view.demand.id, error=str(error))
            return replace(view, users_problem=str(error))

    def _forget_previous(self, key: ModelKey, uid: str) -> None:
        """Drop the state of the object that had this key before: it is gone, or another one has its name."""
        previous = self._uids.pop(key, uid)
        if uid:
            self._uids[key] = uid
        if previous != uid:
            self.resolver.forget(previous)
            self.drift.forget(previous)

    async def _release(self, key: ModelKey) -> None:
        """Remove our finalizer from a model that Larder no longer manages."""
        model = self.observer.cluster.models.unmanaged.get(key)
        if model is not None and OWN_FINALIZER in model.metadata.finalizers:
            await self.actor.remove_finalizer(key, model, OWN_FINALIZER)

    async def _apply(self, key: ModelKey, declared: Declared, view: ModelView, action: Action) -> tuple[bool, float]:
        """Apply an action; return whether the rest must wait for the watch, and the requeue delay (0: none), in s."""
        match action:
            case AddFinalizer():
                await self.actor.add_finalizer(key, declared, finalizer_of(self.observer.cluster.ownership, key.kind))
            case RemoveFinalizer():
                await self.actor.remove_finalizer(
                    key, declared, finalizer_of(self.observer.cluster.ownership, key.kind)
                )
            case Resolve():
                self.resolver.start(key, view.demand, view.generation)
                return False, 0.0
            case RecordResolution():
                await self._record(key, declared, view, action)
            case DiscardAnswer():
                self._settle(view.demand.uid)
                return False, 0.0
            case CheckDrift():
                self.drift.start(key, view.demand)
                return False, 0.0
            case WriteStatus(report):
                await self.actor.write_report(key, declared, view, report)
                return False, 0.0
            case Requeue(after_s):
                return False, after_s
            case _:
                assert_never(action)
        return True, 0.0

    async def _record(self, key: ModelKey, declared: Declared, view: ModelView, record: RecordResolution) -> None:
        new, old = record.resolution, view.demand.resolution
        before = old.revision if old else ""
        _log.info("source_resolved", model=view.demand.id, uri=new.uri, revision=new.revision, before=before)
        if await self.actor.record(key, declared, record):
            self._settle(view.demand.uid)

    def _settle(self, uid: str) -> None:
        """Discard the recorded answer and the result of any earlier drift check."""
        self.resolver.discard_answer(uid)
        self.drift.reset(uid)
