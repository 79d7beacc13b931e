"""The agent's objects, and how they run and end together."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from agent.allocator import give_back_after
from agent.client import ControllerApi
from agent.health import Report, build_app
from agent.metadata.inspector import Inspector
from agent.meters import Meters, ProgressTeller
from agent.metrics import build_registry
from agent.node import OwnNode
from agent.reporter import Reporter
from agent.server import build_server
from agent.settings import Settings
from agent.stock.act import Hands
from agent.stock.book import Book
from agent.stock.download import Downloader
from agent.stock.keeper import Keeper
from agent.stock.labeller import Labeller
from agent.stock.scanner import Scanner
from agent.stock.space_guard import SpaceGuard
from agent.store.floor import Ground, lies_on_root_disk, parse_floor
from agent.store.scrub import Scrubber
from agent.store.store import Store
from agent.store.watch import Watch
from agent.transfer.rate import RateLimiter
from shared import __version__
from shared.api.model_node import PATH, ModelNode
from shared.daemon_thread import start_daemon_thread
from shared.errors import LarderError
from shared.internal_errors import keep_running
from shared.kube.backoff import Backoff
from shared.kube.cache import Cache
from shared.kube.reflector import Pace, Reflector
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_SHORT_WORKS = 5  # threads beside those of the downloads
_LAST_WORDS_S = 2.0
_MANY_RECONNECT = Pace(backoff=Backoff(first_s=0.1, cap_s=5))


@dataclass(slots=True)
class Agent:
    """One agent; `run` ends when `stop` is set, or with the error of the part that broke."""

    settings: Settings
    sources: SourceSettings
    store: Store
    kube: Kube
    listener: socket.socket
    clock: Callable[[], float] = time.monotonic
    _threads: ThreadPoolExecutor = field(init=False)
    _api: ControllerApi = field(init=False)
    _ground: Ground = field(init=False)
    _meters: Meters = field(default_factory=Meters, init=False)
    _bucket: RateLimiter = field(default_factory=RateLimiter, init=False)
    _book: Book = field(default_factory=Book, init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.settings.downloads + _SHORT_WORKS, "larder")
        self._ground = Ground(
            self.store.root,
            on_root_disk=lies_on_root_disk(self.store.root),
            floor=parse_floor(self.settings.floor),
            refuses_root_disk=self.settings.refuse_root_disk,
        )
        self._api = ControllerApi(self.settings.api_url, self.settings.token_file, self.settings.api_ca)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the node stocked until told to stop; running downloads keep their verified bytes."""
        node = OwnNode(self.kube, self.settings.node_name)
        watch = Watch.open()
        keeper = self._keeper(node, watch)
        reflector = self._reflector(keeper)
        report = Report(
            self.settings.node_name,
            keeper.world,
            keeper.space,
            self._meters,
            keeper.why_not_alive,
            keeper.why_not_ready,
            lambda: self._bucket.rate,
        )
        server = build_server(build_app(report, build_registry(report)))
        try:
            async with asyncio.TaskGroup() as group:
                hands = self._hands(keeper, node, group)
                serving = group.create_task(server.serve([self.listener]))
                deciding = group.create_task(self._keep(keeper, hands))
                parts = [self._start(group, part, run) for part, run in (
                    ("watch", reflector.run), ("sync", lambda: _sync(reflector, keeper)),
                    ("status", keeper.reporter.run),
                    ("progress", ProgressTeller(self._meters, self._api, keeper.wake).run),
                    ("memory", lambda: give_back_after(
                        lambda: len(self._meters.running), self._meters.ended.total)),
                )]  # fmt: skip
                await stop.wait()
                _LOG.info("stopping", node=self.settings.node_name, downloads=len(self._meters.running))
                deciding.cancel()
                await hands.settle(self.settings.stop_seconds)
                await _last_words(keeper.reporter)
                server.stop()
                await asyncio.wait([serving], timeout=_LAST_WORDS_S)
                _cancel([serving, *parts])
        finally:
            await self._api.close()
            if watch:
                watch.close()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _keep(self, keeper: Keeper, hands: Hands) -> None:
        await keeper.prepare()
        guard = SpaceGuard(self.store, self._ground, self._meters, self._threads, hands.halt)
        loop = asyncio.get_running_loop()
        scrubber = Scrubber(
            self.store,
            self.settings.scrub_rate,
            self.settings.scrub_pause_seconds,
            self._meters.scrub,
            lambda: loop.call_soon_threadsafe(keeper.scanner.look),
            threading.Event(),
        )
        async with asyncio.TaskGroup() as group:
            self._start(group, "scanner", lambda: keeper.scanner.run(keeper.wake))
            self._start(group, "node", keeper.watch_node)
            self._start(group, "tidying", keeper.tidy)
            self._start(group, "space_guard", guard.run)
            if scrubber.rate:
                self._start(group, "scrub", lambda: _scrub(scrubber))
            await keep_running("loop", lambda: keeper.run(hands), self._meters.internal_errors)

    def _start(self, group: asyncio.TaskGroup, part: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return group.create_task(keep_running(part, run, self._meters.internal_errors))

    def _tell_watch_trouble(self, error: Exception, delay_s: float) -> None:
        self._meters.watch_troubles += 1
        _LOG.warning("watch", node=self.settings.node_name, message=str(error), again_s=round(delay_s, 1))

    def _keeper(self, node: OwnNode, watch: Watch | None) -> Keeper:
        scanner = Scanner(
            book=self._book,
            store=self.store,
            ground=self._ground,
            meters=self._meters,
            threads=self._threads,
            scan_s=self.settings.scan_seconds,
            watch=watch,
            clock=self.clock,
        )
        return Keeper(
            book=self._book,
            store=self.store,
            node=node,
            meters=self._meters,
            reporter=Reporter(self.kube, self.settings.node_name),
            threads=self._threads,
            scanner=scanner,
            version=__version__,
            slots=self.settings.downloads,
            node_s=self.settings.node_seconds,
            clock=self.clock,
            set_rate=self._bucket.set_rate,
        )

    def _hands(self, keeper: Keeper, node: OwnNode, jobs: asyncio.TaskGroup) -> Hands:
        return Hands(
            book=self._book,
            store=self.store,
            api=self._api,
            node=node,
            labeller=Labeller(self._book, node, self.clock, keeper.look_at_node),
            downloader=Downloader(self.store, self.sources, self._bucket, self.settings.connections),
            inspector=Inspector(self._book, self._threads, jobs, self._meters.internal_errors, keeper.wake, self.clock),
            meters=self._meters,
            threads=self._threads,
            jobs=jobs,
            wake=keeper.wake,
            look_at_node=keeper.look_at_node,
            look_at_disk=keeper.scanner.look,
            clock=self.clock,
            ground=self._ground,
        )

    def _reflector(self, keeper: Keeper) -> Reflector[ModelNode]:
        name = self.settings.node_name
        return Reflector(
            self.kube,
            PATH,
            ModelNode,
            Cache(lambda _, node: keeper.take_model_node(node)),
            self._tell_watch_trouble,
            field_selector=f"metadata.name={name}",
            pace=_MANY_RECONNECT,
        )


async def _scrub(scrubber: Scrubber) -> None:
    """Scrub on a thread of its own, for its priorities are its own, until cancelled."""
    outcome = start_daemon_thread(scrubber.run, "larder-scrub")
    try:
        await asyncio.wrap_future(outcome)
    except asyncio.CancelledError:
        scrubber.stop.set()
        wait([outcome], _LAST_WORDS_S)
        raise


async def _sync(reflector: Reflector[ModelNode], keeper: Keeper) -> None:
    await reflector.synced.wait()
    keeper.take_sync()


async def _last_words(reporter: Reporter) -> None:
    with suppress(LarderError, TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_S):
            await reporter.flush()


def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
