"""Removes the startup taint from the agent's own Node, with backoff after a failure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import structlog

from agent.reconciler.node_patcher import NodePatcher
from agent.reconciler.own_node import OwnNodeState

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_KEPT = ("TaintKept", "the API server kept the taint; check for an admission policy that blocks its removal")


@dataclass(slots=True)
class TaintRemover(NodePatcher):
    """Removes the startup taint."""

    failure_event: ClassVar[str] = "startup_taint_not_removed"

    async def remove(self, missing: Sequence[str]) -> None:
        """Remove the taint; after a failure, record the next attempt in the cache."""

        def problem_of(current: OwnNodeState) -> tuple[str, str] | None:
            return _KEPT if current.startup_taint else None

        if not await self.apply(self.node.remove_startup_taint(self.cache.node.uid), problem_of):
            return
        log = _LOG.bind(node=self.node.name)
        if missing:
            log.warning(
                "startup_taint_removed",
                missing=list(missing),
                message="pods may be scheduled before these models are ready",
            )
        else:
            log.info("startup_taint_removed")

    def postpone(self, due_s: float) -> None:
        """Record the time of the next attempt, by the same clock."""
        self.cache.startup_taint = replace(self.cache.startup_taint, patch_due_s=due_s)

    def note_refused(self, why: str) -> None:
        """Do nothing: the taint on the Node shows it, and the log has the reason."""
