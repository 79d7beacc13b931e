"""From a name in the queue to the turn that serves it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import structlog

from controller.claims.reconcile import ClaimReconciler
from controller.groups.grants import GrantsReconciler
from controller.groups.reconcile import GroupReconciler
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.manager.metrics import Metrics
from controller.manager.write import StaleError
from controller.metadata.reconcile import MetadataReconciler
from controller.models.reconcile import ModelReconciler
from controller.nodes.reconcile import NodeReconciler
from controller.state.keys import GrantsKey, GroupKey, ModelKey, NodeKey, QueueKey, ServiceKey
from shared.errors import LarderError

_log = structlog.get_logger()


class NotLeadingError(Exception):
    """The lease may have gone to another replica; nothing is written."""


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Serves keys while this replica leads."""

    models: ModelReconciler
    metadata: MetadataReconciler
    claims: ClaimReconciler
    nodes: NodeReconciler
    groups: GroupReconciler
    grants: GrantsReconciler
    services: ServiceReconciler
    is_leading: Callable[[], bool]
    metrics: Metrics

    async def serve(self, key: QueueKey) -> float | None:
        """Give a key its turn; return in how many seconds it wants another, or None."""
        if not self.is_leading():
            raise NotLeadingError
        _log.debug("turn_begins", key=str(key))
        with self.metrics.turns.labels(type(key).__name__).time():
            match key:
                case ModelKey() if self.claims.serves(key):
                    return await self.claims.reconcile(key)
                case ModelKey():
                    again = await self.models.reconcile(key), await self.metadata.reconcile(key)
                    return min((wait_s for wait_s in again if wait_s is not None), default=None)
                case NodeKey(name):
                    return await self.nodes.reconcile(name)
                case GroupKey(name):
                    return await self.groups.reconcile(name)
                case ServiceKey():
                    return await self.services.reconcile(key)
                case GrantsKey():
                    return await self.grants.reconcile()
                case _:
                    assert_never(key)

    def failed(self, key: QueueKey, error: Exception, wait_s: float) -> None:
        """Tell of a turn that failed; one on a stale memory is ordinary."""
        if isinstance(error, StaleError | NotLeadingError):
            return
        self.metrics.failures.labels(type(key).__name__).inc()
        if not isinstance(error, LarderError):  # what the code foresees is one of those
            self.metrics.internal_errors.note(type(key).__name__, error, key=str(key))
        _log.warning("turn_failed", key=str(key), error=f"{type(error).__name__}: {error}", wait_s=round(wait_s, 2))
