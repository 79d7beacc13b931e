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
    CreateModelNode,
    ListResourceSlices,
    ListUsers,
    ReplaceModelNode,
    WriteModelNode,
    decide,
    entries_to_confirm,
)
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.eviction_recorder import EvictionRecorder
from controller.nodes.observe import NodeObserver
from controller.nodes.view import NodeView, foreign_model_node_message
from controller.nodes.wanted import find_unplaced
from controller.placement.shares import ModelNodeCapacity
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
    capacity: ModelNodeCapacity = ModelNodeCapacity()
    _warned: dict[str, str] = field(default_factory=dict, init=False)  # by node, the uid of a foreign ModelNode

    async def reconcile(self, name: str) -> float | None:
        """Reconcile a node; return the delay in seconds until the next run, or None."""
        view = self.observer.view(name, self.granted, self.now())
        if view is None:
            return None
        self._warn_if_foreign(view)
        view = replace(view, unplaced=find_unplaced(view, self.now(), self.capacity))
        self.observer.cluster.unplaced.set(name, view.unplaced)
        return await self._apply(view, decide(view, self.now(), self.timing))

    async def _apply(self, view: NodeView, actions: list[Action]) -> float | None:
        requeue_s: float | None = None
        for action in actions:
            match action:
                case ListResourceSlices():
                    return await self._decide_again(await self.observer.with_resource_slices(view, self.now()))
                case ListUsers():
                    return await self._decide_again(await self.observer.with_users(view))
                case ConfirmUnwanted():
                    keys = entries_to_confirm(view, self.now(), self.timing)
                    return await self._decide_again(await self.observer.with_unwanted(view, keys))
                case CreateModelNode(spec):
                    await self.actor.create(view, spec)
                case WriteModelNode(spec):
                    self._log_changes(view, spec)
                    await self.actor.write(view, spec)
                    await self.evictions.record(view, spec)
                case ReplaceModelNode():
                    await self._replace(view)
                    requeue_s = _AFTER_REPLACE_S
                case Requeue(after_s):
                    requeue_s = after_s
                case _:
                    assert_never(action)
        return requeue_s

    async def _decide_again(self, view: NodeView) -> float | None:
        return await self._apply(view, decide(view, self.now(), self.timing))

    async def _replace(self, view: NodeView) -> None:
        """Replace the ModelNode, unless the cached Node is stale and the ModelNode belongs to the new one."""
        if await self.observer.live.node_uid(view.name) == view.uid:
            _log.info("model_node_replaced", node=view.name, uid=view.uid)
            await self.actor.replace(view)

    def _warn_if_foreign(self, view: NodeView) -> None:
        """Warn once about a ModelNode that another Node owns and Larder did not create."""
        model_node = view.model_node
        message = foreign_model_node_message(model_node, view.uid) if model_node is not None else ""
        if model_node is None or not message:
            self._warned.pop(view.name, None)
        elif self._warned.get(view.name) != model_node.metadata.uid:
            self._warned[view.name] = model_node.metadata.uid
            _log.warning("model_node_not_ours", node=view.name, message=message)

    def _log_changes(self, view: NodeView, spec: ModelNodeSpec) -> None:
        before = {e.key: e.state for e in view.model_node.spec.entries} if view.model_node else {}
        for entry in spec.entries:
            if before.get(entry.key) != entry.state:
                _log.info("entry_changed", node=view.name, model=entry.id, revision=entry.revision, state=entry.state)
        for key in before.keys() - {e.key for e in spec.entries}:
            _log.info("entry_removed", node=view.name, model=key[0], revision=key[1])
