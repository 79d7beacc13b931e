"""Records why an entry failed and when it is tried again."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from agent.reconciler.activity import Activity
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S, Retries, is_new_failure
from agent.reconciler.state_cache import StateCache
from shared.api.model_node import Entry
from shared.errors import InsufficientStorage, LarderError, TooManyFilesOnNode

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FailureRecorder:
    """Keeps each entry's last failure in the cache, counts it, and logs it if it is new."""

    cache: StateCache
    activity: Activity
    node_name: str
    clock: Callable[[], float]
    retries: Retries = Retries()

    def record(self, entry: Entry, error: LarderError, *, transient: bool = False) -> None:
        """Record a failure, and back off before the next attempt. A transient one leaves the entry Pending."""
        before = self.cache.failures.get(entry.key)
        failure = self.retries.failure(entry, error, before, self.clock(), transient=transient)
        self.cache.failures[entry.key] = failure
        self.activity.failures[error.reason] += 1
        if before is None or is_new_failure(before.cause, failure.cause):
            again_s = round(failure.due_s - self.clock(), 1)
            _LOG.warning(
                "entry_failed", model=entry.id, revision=entry.revision, again_s=again_s,
                reason=error.reason, message=str(error), node=self.node_name,
            )  # fmt: skip

    def wait_for_space(self, entry: Entry, error: InsufficientStorage | TooManyFilesOnNode) -> None:
        """Record that an entry does not fit; it is tried again when there is more room on the disk or in memory."""
        self.record(entry, error)
        self.cache.failures[entry.key] = replace(self.cache.failures[entry.key], due_s=WHEN_SPACE_CHANGES_S)
