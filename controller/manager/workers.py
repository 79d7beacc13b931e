"""Runs the reconcilers for a key from the queue."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from controller.manager.controller import Controller, QueueKey
from controller.manager.metrics import Metrics
from controller.manager.write import StaleError
from shared.errors import LarderError

_log = structlog.get_logger()


class NotLeadingError(Exception):
    """Another replica may hold the lease by now, so nothing is written."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Reconciles keys while this replica leads."""

    is_leading: Callable[[], bool]
    metrics: Metrics
    _controllers: defaultdict[type, list[Controller[Any]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, controller: Controller[Any]) -> None:
        """Register a controller; its reconcile runs after those that were registered earlier."""
        self._controllers[controller.key].append(controller)

    async def serve(self, key: QueueKey) -> float | None:
        """Reconcile a key; return the delay in seconds until it needs another run, or None."""
        if not self.is_leading():
            raise NotLeadingError
        _log.debug("reconcile_started", key=str(key))
        serving = [controller for controller in self._controllers[type(key)] if controller.serves(key)]
        delays_s = [await self._reconcile(controller, key) for controller in serving]
        return min((delay_s for delay_s in delays_s if delay_s is not None), default=None)

    async def _reconcile(self, controller: Controller[Any], key: QueueKey) -> float | None:
        result = "error"
        try:
            with self.metrics.reconcile_time.labels(controller.name).time():
                requeue_s = await controller.reconcile(key)
            result = "success"
        except (StaleError, NotLeadingError, asyncio.CancelledError):
            result = "requeue"  # expected: the key is reconciled again, with a fresh cache or by the next leader
            raise
        finally:
            self.metrics.reconciles.labels(controller.name, result).inc()
        return requeue_s

    def failed(self, key: QueueKey, error: Exception, wait_s: float) -> None:
        """Log a failed reconcile; a stale cache is expected and is not logged."""
        if isinstance(error, StaleError | NotLeadingError):
            return
        if not isinstance(error, LarderError):  # every expected error is a LarderError
            self.metrics.internal_errors.note(type(key).__name__, error, key=str(key))
        _log.warning(
            "reconcile_failed", key=str(key), error=f"{type(error).__name__}: {error}", wait_s=round(wait_s, 2)
        )
