"""Corrects the labels of the agent's own Node, with backoff after a failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import structlog

from agent.reconciler.node_patcher import NodePatcher
from agent.reconciler.own_node import OwnNodeState
from shared.api.model_node import LABELS_REFUSED

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class Labeller(NodePatcher):
    """Applies each set of changes in one patch."""

    failure_event: ClassVar[str] = "labels_not_changed"

    async def change(self, changes: Mapping[str, str | None]) -> None:
        """Set and remove these labels; after a failure, record the next attempt in the cache."""

        def problem_of(current: OwnNodeState) -> tuple[str, str] | None:
            refused = sorted(k for k, v in changes.items() if current.labels.get(k) != v)
            named = ", ".join(refused)
            message = f"the API server did not change {named}; check for an admission policy that blocks the change"
            return (LABELS_REFUSED, message) if refused else None

        if await self.apply(self.node.label(self.cache.node.uid, changes), problem_of):
            dropped = sorted(k for k, v in changes.items() if v is None)
            _LOG.info("labels_changed", node=self.node.name, set=sorted(changes.keys() - dropped), dropped=dropped)

    def postpone(self, due_s: float) -> None:
        """Record the time of the next attempt, by the same clock."""
        self.cache.label_patch_due_s = due_s

    def note_refused(self, why: str) -> None:
        """Record why the API server refuses the labels."""
        self.cache.labels_refused = why
