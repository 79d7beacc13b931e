"""Runs what features declare: informers, the workqueue and its workers, leader election, metrics and health."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from controller.manager.controller import Controller, Feature, LeaderTask, QueueKey
from controller.manager.health import health_app
from controller.manager.informers import Informers
from controller.manager.metrics import Metrics
from controller.manager.state_metrics import StateMetrics
from controller.manager.workers import Workers
from controller.state.informer import Informer
from controller.state.kinds.crds import Definitions
from controller.state.kinds.ownership import Ownership
from shared.internal_errors import keep_running
from shared.kube.elector import Elector
from shared.kube.errors import KubeError
from shared.kube.lease import LeaseLock
from shared.kube.transport import Kube
from shared.kube.work_queue import WorkQueue
from shared.server.serve import serve

_TAKE_OVER_RETRY_S = 1.0
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """How one replica runs; `lease_annotations` tell other replicas where to reach it."""

    namespace: str
    identity: str
    lease: str
    lease_seconds: float
    lease_annotations: Mapping[str, str]
    workers: int
    listen_health: str


class Manager:
    """One replica: every replica runs the informers, only the leader reconciles.

    Add informers and features first, then call `run`.
    """

    def __init__(
        self,
        kube: Kube,
        ownership: Ownership,
        settings: ManagerSettings,
        metrics: Metrics,
        election_kube: Kube | None = None,
    ) -> None:
        self.metrics = metrics
        self._settings = settings
        self._controllers: list[Controller[Any]] = []
        self._tasks: list[LeaderTask] = []
        self._informers = Informers(kube, Definitions(kube, ownership), metrics)
        self._workers = Workers(self.is_leading, metrics)
        self._queue: WorkQueue[QueueKey] = WorkQueue(self._workers.failed, flow_of=lambda key: key.flow, is_open=False)
        self._state_metrics = StateMetrics(self.is_leading, self._queue.__len__)
        metrics.registry.register(self._state_metrics)
        lock = LeaseLock(
            election_kube or kube,  # with connections of its own, no other request delays a renewal
            settings.namespace,
            settings.lease,
            settings.identity,
            settings.lease_seconds,
            annotations=settings.lease_annotations,
        )
        self._elector = Elector(
            lock,
            self._lead,
            deadline_s=settings.lease_seconds * 2 / 3,
            retry_s=settings.lease_seconds / 7.5,
            on_error=lambda error: _log.info("election_failed", error=str(error)),
        )

    def add_informers(self, informers: Iterable[Informer[Any]]) -> None:
        """Add informers for collections that several features read."""
        for informer in informers:
            self._informers.add(informer)

    def add(self, feature: Feature) -> None:
        """Add a feature."""
        match feature:
            case Controller():
                self._controllers.append(feature)
                self._workers.add(feature)
                self._state_metrics.gauges.append(feature.gauges)
                for watch in feature.triggers:
                    watch.listen(self._queue)
                self.add_informers(watch.informer for watch in feature.triggers if watch.informer is not None)
            case LeaderTask():
                self._tasks.append(feature)
            case _:
                assert_never(feature)

    def enqueue(self, key: QueueKey) -> None:
        """Enqueue a key for a feature that has done work on it outside the queue."""
        self._queue.add(key)

    def is_leading(self) -> bool:
        """Return whether this replica still leads and may write."""
        return self._elector.leading

    def is_synced(self) -> bool:
        """Return whether every list that decisions need has been read."""
        return self._informers.is_synced

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            tasks.create_task(keep_running("election", self._campaign, self.metrics.internal_errors))
            tasks.create_task(serve(health_app(self.metrics, self.is_synced), self._settings.listen_health))

    async def _campaign(self) -> None:
        """Campaign for leadership, lead while it lasts, and campaign again."""
        await self._informers.synced()
        gc.freeze()  # exempt the 100,000 long-lived objects, which every full collection would scan
        while True:
            await self._elector.run()
            self.metrics.leading.set(0)
            _log.info("leadership_lost")

    async def _lead(self) -> None:
        """Serve the queue, once every feature has taken over."""
        _log.info("leading", identity=self._settings.identity)
        self.metrics.leading.set(1)
        self._queue.open()  # before the keys are listed, so that no change is missed
        try:
            for controller in self._controllers:
                if controller.take_over is not None:
                    await self._take_over(controller.take_over)
            for controller in self._controllers:
                for key in controller.all_keys():
                    self._queue.add(key)
            async with asyncio.TaskGroup() as tasks:
                for task in self._tasks:
                    tasks.create_task(keep_running(task.name, task.run, self.metrics.internal_errors))
                tasks.create_task(self._queue.serve(self._settings.workers, self._workers.serve))
        finally:
            self._queue.close()
            for controller in self._controllers:
                if controller.stop is not None:
                    await controller.stop()

    async def _take_over(self, take_over: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await take_over()
            except KubeError as error:
                _log.warning("takeover_delayed", error=str(error))
                await asyncio.sleep(_TAKE_OVER_RETRY_S)
            except Exception as error:  # noqa: BLE001 - one failing reconciler must not stop the others
                self.metrics.internal_errors.note("takeover", error)
                return
            else:
                return
