"""Keeps the cached state of the disk current."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import structlog

from agent.event_wait import wait_or_timeout
from agent.linux.inotify import InotifyWatch
from agent.reconciler.activity import Activity
from agent.reconciler.observation import Key
from agent.reconciler.state_cache import Space, StateCache
from agent.store.floor import StoreVolume
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.errors import LarderError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_PERIODIC_FACTOR = 200  # a full scan runs at intervals of this many times its cost: half a percent of a core
_REQUESTED_FACTOR = 10  # reported changes are scanned sooner, using at most a tenth of a core
_SETTLE_S = 0.25  # changes come in bursts
_WATCHED_FACTOR = 60  # with inotify, periodic scans are this much rarer


@dataclass(slots=True)
class Scanner:
    """Keeps the cached state of the disk current: inotify reports changes, periodic scans find the rest."""

    cache: StateCache
    store: Store
    volume: StoreVolume
    activity: Activity
    threads: Executor
    scan_interval_s: float
    watch: InotifyWatch | None
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.thread_time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _requested: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _watched: bool = field(default=False, init=False)
    _warned: bool = field(default=False, init=False)
    _scanned_s: float = field(default=-math.inf, init=False)
    _cost_s: float = field(default=0.0, init=False)

    def request_scan(self) -> None:
        """Request a fresh scan: something was written or removed."""
        self._requested.set()

    async def run(self, on_change: Callable[[], None]) -> None:
        """Scan until cancelled; `on_change` is called after each scan."""
        loop = asyncio.get_running_loop()
        if self.watch:
            loop.add_reader(self.watch.descriptor, self._on_inotify, self.watch)
        try:
            while True:
                if requested := await wait_or_timeout(self._requested, self.scan_interval_s):
                    await self.sleep(_SETTLE_S)
                self._requested.clear()
                full = requested or self.clock() >= self._due_s
                await self._refresh(full=full)
                on_change()
                await self.sleep(_REQUESTED_FACTOR * self._cost_s if full else 0.0)
        finally:
            if self.watch:
                loop.remove_reader(self.watch.descriptor)

    async def read(self) -> None:
        """Check every file of every snapshot, and read the space. Raises StoreFailure."""
        while True:
            before = self.cache.disk_changes
            held, space = await asyncio.get_running_loop().run_in_executor(self.threads, self._read)
            if before == self.cache.disk_changes:
                break
        self._warn_if_unwatched()
        self.cache.set_space(space, self.clock())
        for key, snapshot in held.items():
            known = self.cache.held.get(key)
            if snapshot.damaged and not (known and known.damaged):
                self.activity.damaged += 1
                _LOG.warning("snapshot_damaged", model=key[0], revision=key[1], files=list(snapshot.damaged)[:10])
        self.cache.set_held(held)
        self._scanned_s = self.clock()

    @property
    def _due_s(self) -> float:
        """Return when the next scan is due without a request."""
        rare = self._watched and not self.activity.running  # inotify does not report how downloads change the space
        interval_s = self.scan_interval_s * (_WATCHED_FACTOR if rare else 1)
        return self._scanned_s + max(interval_s, self._cost_s * _PERIODIC_FACTOR)

    def _warn_if_unwatched(self) -> None:
        if not self._watched and not self._warned:
            _LOG.warning(
                "disk_changes_not_watched",
                action="raise fs.inotify.max_user_instances and max_user_watches on the node",
            )
        self._warned = not self._watched

    def _on_inotify(self, watch: InotifyWatch) -> None:
        if watch.drain():
            self._requested.set()

    async def _refresh(self, *, full: bool) -> None:
        try:
            if full:
                await self.read()
            else:
                found = await asyncio.get_running_loop().run_in_executor(self.threads, self._space, 0)
                self.cache.set_space(replace(found, used=self.cache.space.used), self.clock())
        except LarderError as error:
            _LOG.warning("store_not_read", reason=error.reason, message=str(error))
            self._scanned_s = -math.inf

    def _read(self) -> tuple[dict[Key, Snapshot], Space]:
        began_s = self.cpu_clock()
        self._restore_directories()
        if self.watch:  # before the scan, so that no change falls between the two
            covered = self.watch.cover([self.store.layout.blobs], creations=False)
            self._watched = self.watch.cover(self.store.snapshots.directories(), creations=True) and covered
        held = {(s.id, s.revision): s for s in self.store.snapshots.all()}
        if orphans := self.store.blobs.drop_orphans():
            _LOG.info("orphan_blobs_removed", count=orphans, hint="a snapshot was removed by hand")
        space = self._space(self.store.space.used_bytes())
        self._cost_s = self.cpu_clock() - began_s
        return held, space

    def _restore_directories(self) -> None:
        try:
            self.store.restore_directories()
        except LarderError as error:  # what is gone must still lose its labels
            _LOG.warning("directories_not_restored", reason=error.reason, message=str(error))

    def _space(self, used: int) -> Space:
        size = self.store.space.disk_bytes()
        return Space(
            used=used,
            reserved=self.store.space.reserved_bytes(),
            disk_free=self.store.space.free_bytes(),
            disk_size=size,
            floor=self.volume.floor_bytes(size),
        )
