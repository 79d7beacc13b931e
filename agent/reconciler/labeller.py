"""Corrects the labels of the agent's own Node, with backoff after a failure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from agent.reconciler.own_node import OwnNode
from agent.reconciler.state_cache import StateCache
from shared.backoff import Backoff
from shared.kube.errors import Conflict, KubeError, NotFound

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class Labeller:
    """Applies each set of changes in one patch.

    Calls `request_node_read` when another Node may have taken the name.
    """

    cache: StateCache
    node: OwnNode
    clock: Callable[[], float]
    request_node_read: Callable[[], None]
    backoff: Backoff = Backoff(first_s=0.5, cap_s=10)
    _failures: int = field(default=0, init=False)

    async def change(self, changes: Mapping[str, str | None]) -> None:
        """Set and remove these labels; after a failure, record the next attempt in the cache."""
        try:
            current = await self.node.label(self.cache.node.uid, changes)
        except KubeError as error:
            if isinstance(error, Conflict | NotFound):
                self.request_node_read()
            self.schedule_retry(error.reason, str(error))
            return
        self.cache.node, self.cache.label_changes = current, self.cache.label_changes + 1
        if refused := sorted(k for k, v in changes.items() if current.labels.get(k) != v):
            self.schedule_retry(
                "LabelsRefused",
                f"the API server did not apply the changes to {', '.join(refused)}; is an admission policy in the way?",
            )
            return
        self._failures, self.cache.label_patch_due_s = 0, 0.0
        dropped = sorted(k for k, v in changes.items() if v is None)
        _LOG.info("labels_changed", node=self.node.name, set=sorted(changes.keys() - dropped), dropped=dropped)

    def schedule_retry(self, reason: str, message: str) -> None:
        """Schedule the next attempt after a failure."""
        self._failures += 1
        delay_s = self.backoff.delay_s(self._failures)
        self.cache.label_patch_due_s = self.clock() + delay_s
        again_s = round(delay_s, 1)
        _LOG.warning("labels_not_changed", node=self.node.name, reason=reason, message=message, again_s=again_s)
