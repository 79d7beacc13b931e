"""Patches the agent's own Node, with backoff after a failure."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar

import structlog

from agent.reconciler.own_node import OwnNode, OwnNodeState
from agent.reconciler.state_cache import StateCache
from shared.backoff import Backoff
from shared.kube.errors import Conflict, KubeError, NotFound

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class NodePatcher(ABC):
    """Records each result in the cache; calls `request_node_read` if the Node may have been replaced."""

    failure_event: ClassVar[str]  # the log event of a failed patch

    cache: StateCache
    node: OwnNode
    clock: Callable[[], float]
    request_node_read: Callable[[], None]
    backoff: Backoff = Backoff(first_s=0.5, cap_s=10)
    _failures: int = field(default=0, init=False)

    @abstractmethod
    def postpone(self, due_s: float) -> None:
        """Record the time of the next attempt, by `clock`."""

    async def apply(
        self, patch: Awaitable[OwnNodeState], problem_of: Callable[[OwnNodeState], tuple[str, str] | None]
    ) -> bool:
        """Return whether the patch took effect; after a failure, schedule the next attempt.

        Args:
            patch: The patch.
            problem_of: Returns a reason and a message if the Node does not show the change.
        """
        try:
            current = await patch
        except KubeError as error:
            if isinstance(error, Conflict | NotFound):
                self.request_node_read()
            self.schedule_retry(error.reason, str(error))
            return False
        self.cache.set_node(current, self.clock())
        self.cache.label_changes += 1
        if problem := problem_of(current):
            self.schedule_retry(*problem)
            return False
        self._failures = 0
        self.postpone(0.0)
        return True

    def schedule_retry(self, reason: str, message: str) -> None:
        """Schedule the next attempt after a failure."""
        self._failures += 1
        delay_s = self.backoff.delay_s(self._failures)
        self.postpone(self.clock() + delay_s)
        again_s = round(delay_s, 1)
        _LOG.warning(self.failure_event, node=self.node.name, reason=reason, message=message, again_s=again_s)
