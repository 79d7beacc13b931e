"""Runs the parts of the agent, and ends them in order."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from agent.assembly import AgentParts
from agent.linux.inotify import InotifyWatch
from agent.linux.malloc import release_memory_when_idle
from agent.reconciler.activity import ProgressReporter
from agent.reconciler.executor import ActionExecutor
from agent.reconciler.loop import Reconciler
from agent.reconciler.own_node import OwnNode
from agent.reconciler.space_guard import SpaceGuard
from agent.reconciler.status_writer import StatusWriter
from agent.server.app import AgentState, build_app
from agent.server.metrics import build_registry
from agent.server.server import build_server
from agent.settings import AgentSettings
from agent.store.scrub import Scrubber
from agent.store.store import Store
from shared.api.model_node import PATH, ModelNode
from shared.backoff import Backoff
from shared.daemon_thread import start_daemon_thread
from shared.errors import LarderError
from shared.internal_errors import keep_running
from shared.kube.cache import Cache
from shared.kube.reflector import Reflector, ReflectorTiming
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings

if TYPE_CHECKING:
    from agent.devices.assembly import Devices

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_FLUSH_TIMEOUT_S = 2.0
_RECONNECT_TIMING = ReflectorTiming(backoff=Backoff(first_s=0.1, cap_s=5))


@dataclass(slots=True)
class Agent:
    """One agent; `run` ends when `stop` is set, or with the error of the part that failed."""

    settings: AgentSettings
    sources: SourceSettings
    store: Store
    kube: Kube
    listener: socket.socket
    clock: Callable[[], float] = time.monotonic
    _parts: AgentParts = field(init=False)

    def __post_init__(self) -> None:
        self._parts = AgentParts(self.settings, self.sources, self.store, self.kube, self.clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Bring the node to its desired state until `stop` is set; running downloads keep their verified bytes."""
        node = OwnNode(self.kube, self.settings.node_name)
        watch = InotifyWatch.open()
        reconciler = self._parts.reconciler(node, watch)
        devices = self._devices(reconciler)
        reflector = self._reflector(reconciler)
        state = self._state(reconciler, devices)
        server = build_server(build_app(state, build_registry(state)))
        try:
            async with asyncio.TaskGroup() as group:
                executor = self._parts.executor(reconciler, node, group)
                serving = group.create_task(server.serve([self.listener]))
                deciding = group.create_task(self._reconcile(reconciler, executor))
                parts = [self._start(group, part, run) for part, run in (
                    ("watch", reflector.run), ("sync", lambda: _sync(reflector, reconciler)),
                    ("status", reconciler.status_writer.run),
                    ("progress", ProgressReporter(self._parts.activity, self._parts.api, reconciler.wake).run),
                    *([("devices", devices.run)] if devices else []),
                    ("memory", lambda: release_memory_when_idle(
                        lambda: len(self._parts.activity.running), self._parts.activity.ended.total)),
                )]  # fmt: skip
                await stop.wait()
                _LOG.info("stopping", node=self.settings.node_name, downloads=len(self._parts.activity.running))
                deciding.cancel()
                await executor.shut_down(self.settings.stop_seconds)
                await _flush_status(reconciler.status_writer)
                server.stop()
                await asyncio.wait([serving], timeout=_FLUSH_TIMEOUT_S)
                _cancel([serving, *parts])
        finally:
            await self._parts.api.close()
            if watch:
                watch.close()
            self._parts.threads.shutdown(wait=False, cancel_futures=True)

    def _devices(self, reconciler: Reconciler) -> "Devices | None":
        if not (self.settings.devices or self.settings.withdraw_devices):
            return None
        from agent.devices.assembly import attach_devices  # noqa: PLC0415 - off by default, and then it takes no memory

        return attach_devices(self.kube, self.settings, reconciler)

    def _state(self, reconciler: Reconciler, devices: "Devices | None") -> AgentState:
        return AgentState(
            self.settings.node_name,
            reconciler.observation,
            reconciler.space,
            self._parts.activity,
            reconciler.why_not_alive,
            reconciler.why_not_ready,
            lambda: self._parts.rate_limiter.rate,
            extension=devices,
        )

    async def _reconcile(self, reconciler: Reconciler, executor: ActionExecutor) -> None:
        await reconciler.prepare()
        guard = SpaceGuard(
            self.store, self._parts.volume, self._parts.activity, self._parts.threads, executor.downloads.stop_all
        )
        loop = asyncio.get_running_loop()
        scrubber = Scrubber(
            self.store,
            self.settings.scrub_rate,
            self.settings.scrub_pause_seconds,
            self._parts.activity.scrub,
            lambda: loop.call_soon_threadsafe(reconciler.scanner.request_scan),
            threading.Event(),
        )
        async with asyncio.TaskGroup() as group:
            self._start(group, "scanner", lambda: reconciler.scanner.run(reconciler.wake))
            self._start(group, "node", reconciler.watch_node)
            self._start(group, "tidying", reconciler.drop_idle_files)
            self._start(group, "space_guard", guard.run)
            if scrubber.rate:
                self._start(group, "scrub", lambda: _scrub(scrubber))
            await keep_running("loop", lambda: reconciler.run(executor), self._parts.activity.internal_errors)

    def _start(self, group: asyncio.TaskGroup, part: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return group.create_task(keep_running(part, run, self._parts.activity.internal_errors))

    def _on_watch_error(self, error: Exception, delay_s: float) -> None:
        self._parts.activity.watch_restarts += 1
        _LOG.warning("watch_interrupted", node=self.settings.node_name, message=str(error), again_s=round(delay_s, 1))

    def _reflector(self, reconciler: Reconciler) -> Reflector[ModelNode]:
        name = self.settings.node_name
        return Reflector(
            self.kube,
            PATH,
            ModelNode,
            Cache(lambda _, node: reconciler.set_model_node(node)),
            self._on_watch_error,
            field_selector=f"metadata.name={name}",
            timing=_RECONNECT_TIMING,
        )


async def _scrub(scrubber: Scrubber) -> None:
    """Scrub until cancelled, in a dedicated thread because it has its own priorities."""
    outcome = start_daemon_thread(scrubber.run, "larder-scrub")
    try:
        await asyncio.wrap_future(outcome)
    except asyncio.CancelledError:
        scrubber.stop.set()
        wait([outcome], _FLUSH_TIMEOUT_S)
        raise


async def _sync(reflector: Reflector[ModelNode], reconciler: Reconciler) -> None:
    await reflector.synced.wait()
    reconciler.mark_synced()


async def _flush_status(status_writer: StatusWriter) -> None:
    with suppress(LarderError, TimeoutError):
        async with asyncio.timeout(_FLUSH_TIMEOUT_S):
            await status_writer.flush()


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
