"""Reconciles one node: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

import structlog

from controller.manager.actions import Requeue
from controller.nodes.act import NodeActor
from controller.nodes.decide import (
    Action,
    ConfirmUnwanted,
    Create,
    ListUsers,
    Replace,
    Write,
    decide,
    in_question,
)
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.eviction_recorder import EvictionRecorder
from controller.nodes.observe import NodeObserver
from controller.nodes.view import NodeView, foreign_model_node_message
from controller.nodes.wanted import find_unplaced
from controller.placement.shares import ModelNodeRoom
from shared.api.model_node import ModelNodeSpec

_log = structlog.get_logger()
_AFTER_REPLACE_S = 0.5


@dataclass(slots=True)
class NodeReconciler:
    """Drives a ModelNode to its desired state; `granted` are the nodes of limited groups that may download now."""

    observer: NodeObserver
    actor: NodeActor
    evictions: EvictionRecorder
    now: Callable[[], datetime]
    timing: RemovalTiming
    granted: set[str] = field(default_factory=set)
    room: ModelNodeRoom = ModelNodeRoom()
    _left_alone: dict[str, str] = field(default_factory=dict, init=False)  # by node, the uid of a foreign ModelNode

    async def reconcile(self, name: str) -> float | None:
        """Reconcile a node; return the delay in seconds until the next run, or None."""
        view = self.observer.view(name, self.granted, self.now())
        if view is None:
            return None
        self._tell_of_another(view)
        view = replace(view, unplaced=find_unplaced(view, self.now(), self.room))
        self.observer.cluster.unplaced.set(name, view.unplaced)
        return await self._apply(view, decide(view, self.now(), self.timing))

    async def _apply(self, view: NodeView, actions: list[Action]) -> float | None:
        again: float | None = None
        for action in actions:
            match action:
                case ListUsers():
                    return await self._decide_again(await self.observer.with_users(view))
                case ConfirmUnwanted():
                    asked = in_question(view, self.now(), self.timing)
                    return await self._decide_again(await self.observer.with_unwanted(view, asked))
                case Create(spec):
                    await self.actor.create(view, spec)
                case Write(spec):
                    self._tell(view, spec)
                    await self.actor.write(view, spec)
                    await self.evictions.record(view, spec)
                case Replace():
                    await self._replace(view)
                    again = _AFTER_REPLACE_S
                case Requeue(after_s):
                    again = after_s
                case _:
                    assert_never(action)
        return again

    async def _decide_again(self, seen: NodeView) -> float | None:
        return await self._apply(seen, decide(seen, self.now(), self.timing))

    async def _replace(self, view: NodeView) -> None:
        """Replace the ModelNode, unless it is the newer one and the cached Node is the one that is gone."""
        if await self.observer.live.node_uid(view.name) == view.uid:
            _log.info("model_node_replaced", node=view.name, uid=view.uid)
            await self.actor.replace(view)

    def _tell_of_another(self, view: NodeView) -> None:
        """Report once that a foreign ModelNode is in the way."""
        found = view.model_node
        words = foreign_model_node_message(found, view.uid) if found is not None else ""
        if found is None or not words:
            self._left_alone.pop(view.name, None)
        elif self._left_alone.get(view.name) != found.metadata.uid:
            self._left_alone[view.name] = found.metadata.uid
            _log.warning("model_node_not_ours", node=view.name, message=words)

    def _tell(self, view: NodeView, spec: ModelNodeSpec) -> None:
        before = {e.key: e.state for e in view.model_node.spec.entries} if view.model_node else {}
        for entry in spec.entries:
            if before.get(entry.key) != entry.state:
                _log.info("entry_changed", node=view.name, model=entry.id, revision=entry.revision, state=entry.state)
        for key in before.keys() - {e.key for e in spec.entries}:
            _log.info("entry_removed", node=view.name, model=key[0], revision=key[1])
