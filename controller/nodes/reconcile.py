"""One turn for one node: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

import structlog

from controller.nodes.act import NodeActor
from controller.nodes.decide import Action, Again, ConfirmUnknown, Create, ListUsers, Pace, Replace, Write, decide
from controller.nodes.observe import NodeObserver
from controller.nodes.view import NodeView
from shared.api.model_node import ModelNodeSpec

_log = structlog.get_logger()
_AFTER_REPLACE_S = 0.5


@dataclass(slots=True)
class NodeReconciler:
    """Brings a ModelNode to what it shall be."""

    observer: NodeObserver
    actor: NodeActor
    now: Callable[[], datetime]
    pace: Pace
    granted: set[str] = field(default_factory=set)
    limited: set[str] = field(default_factory=set)

    async def reconcile(self, name: str) -> float | None:
        """Return in how many seconds to look again, or None."""
        view = self.observer.view(name, granted=name not in self.limited or name in self.granted)
        if view is None:
            return None
        return await self._apply(view, decide(view, self.now(), self.pace))

    async def _apply(self, view: NodeView, actions: list[Action]) -> float | None:
        again: float | None = None
        for action in actions:
            match action:
                case ListUsers():
                    seen = await self.observer.with_users(view)
                    return await self._apply(seen, decide(seen, self.now(), self.pace))
                case ConfirmUnknown():
                    seen = await self.observer.with_unknown(view)
                    return await self._apply(seen, decide(seen, self.now(), self.pace))
                case Create(spec):
                    await self.actor.create(view, spec)
                case Write(spec):
                    self._tell(view, spec)
                    await self.actor.write(view, spec)
                case Replace():
                    _log.info("model_node_replaced", node=view.name, uid=view.uid)
                    await self.actor.replace(view)
                    again = _AFTER_REPLACE_S
                case Again(after_s):
                    again = after_s
                case _:
                    assert_never(action)
        return again

    def _tell(self, view: NodeView, spec: ModelNodeSpec) -> None:
        before = {e.key: e.state for e in view.model_node.spec.entries} if view.model_node else {}
        for entry in spec.entries:
            if before.get(entry.key) != entry.state:
                _log.info("entry_changed", node=view.name, model=entry.id, revision=entry.revision, state=entry.state)
        for key in before.keys() - {e.key for e in spec.entries}:
            _log.info("entry_removed", node=view.name, model=key[0], revision=key[1])
