"""Patches the agent's own Node, with backoff after a failure."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar

import structlog

from agent.reconciler.own_node import OwnNode, OwnNodeState
from agent.reconciler.state_cache import StateCache
from shared.backoff import Backoff
from shared.kube.errors import Conflict, KubeError, NotFound, Refused

_LASTING = 3  # failures in a row after which an error of the API server counts as a refusal, such as one of a webhook
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

    @abstractmethod
    def note_refused(self, why: str) -> None:
        """Record why the API server refuses the change; empty once it has accepted one."""

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
            is_refused = isinstance(error, Refused) and not error.retryable
            if is_refused or self._failures >= _LASTING:
                self.note_refused(str(error))
            return False
        self.cache.set_node(current, self.clock())
        self.cache.label_changes += 1
        if problem := problem_of(current):
            self.schedule_retry(*problem)
            self.note_refused(problem[1])
            return False
        self._failures = 0
        self.note_refused("")
        self.postpone(0.0)
        return True

    def schedule_retry(self, reason: str, message: str) -> None:
        """Schedule the next attempt after a failure."""
        self._failures += 1
        delay_s = self.backoff.delay_s(self._failures)
        self.postpone(self.clock() + delay_s)
        again_s = round(delay_s, 1)
        _LOG.warning(self.failure_event, node=self.node.name, reason=reason, message=message, again_s=again_s)
