"""Keeps the cached state of the disk current: inotify reports changes, periodic scans find the rest."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import structlog

from agent.linux.inotify import InotifyWatch
from agent.reconciler.activity import Activity
from agent.reconciler.observation import Key
from agent.reconciler.state_cache import Space, StateCache
from agent.reconciler.waiting import wait
from agent.store.floor import StoreVolume
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.errors import LarderError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_SHARE = 200  # a full scan runs at intervals of this many times its cost: half a percent of a core
_HASTE = 10  # reported changes are scanned sooner, using at most a tenth of a core
_SETTLE_S = 0.25  # changes seldom come alone
_WATCHED = 60  # with inotify, periodic scans are this much rarer


@dataclass(slots=True)
class Scanner:
    """Scans the store into the cache; `scan_s` is the interval in seconds."""

    cache: StateCache
    store: Store
    volume: StoreVolume
    activity: Activity
    threads: Executor
    scan_s: float
    watch: InotifyWatch | None
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.thread_time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _stale: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _watched: bool = field(default=False, init=False)
    _said: bool = field(default=False, init=False)
    _looked_s: float = field(default=-math.inf, init=False)
    _cost_s: float = field(default=0.0, init=False)

    def request_scan(self) -> None:
        """Request a fresh scan: something was written or removed."""
        self._stale.set()

    async def run(self, on_change: Callable[[], None]) -> None:
        """Scan until cancelled; `on_change` is called after each scan."""
        loop = asyncio.get_running_loop()
        if self.watch:
            loop.add_reader(self.watch.descriptor, self._hear, self.watch)
        try:
            while True:
                if asked := await wait(self._stale, self.scan_s):
                    await self.sleep(_SETTLE_S)
                self._stale.clear()
                everywhere = asked or self.clock() >= self._due_s
                await self._look(everywhere=everywhere)
                on_change()
                await self.sleep(_HASTE * self._cost_s if everywhere else 0.0)
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
        self._say_if_unwatched()
        self.cache.take_space(space, self.clock())
        for key, snapshot in held.items():
            known = self.cache.held.get(key)
            if snapshot.damaged and not (known and known.damaged):
                self.activity.damaged += 1
                _LOG.warning("snapshot_damaged", model=key[0], revision=key[1], files=list(snapshot.damaged)[:10])
        self.cache.take_held(held)
        self._looked_s = self.clock()

    @property
    def _due_s(self) -> float:
        """Return when the next scan is due without a request."""
        rare = self._watched and not self.activity.running  # inotify does not report how downloads change the space
        return self._looked_s + max(self.scan_s * (_WATCHED if rare else 1), self._cost_s * _SHARE)

    def _say_if_unwatched(self) -> None:
        if not self._watched and not self._said:
            _LOG.warning(
                "disk_changes_not_watched",
                action="raise fs.inotify.max_user_instances and max_user_watches of the node",
            )
        self._said = not self._watched

    def _hear(self, watch: InotifyWatch) -> None:
        if watch.drain():
            self._stale.set()

    async def _look(self, *, everywhere: bool) -> None:
        try:
            if everywhere:
                await self.read()
            else:
                found = await asyncio.get_running_loop().run_in_executor(self.threads, self._space, 0)
                self.cache.take_space(replace(found, used=self.cache.space.used), self.clock())
        except LarderError as error:
            _LOG.warning("store_not_read", reason=error.reason, message=str(error))
            self._looked_s = -math.inf

    def _read(self) -> tuple[dict[Key, Snapshot], Space]:
        began_s = self.cpu_clock()
        if self.watch:  # before the scan, so that no change falls between the two
            covered = self.watch.cover([self.store.blobs_directory], births=False)
            self._watched = self.watch.cover(self.store.directories(), births=True) and covered
        held = {(s.id, s.revision): s for s in self.store.snapshots()}
        if orphans := self.store.drop_orphans():
            _LOG.info("orphan_blobs_removed", count=orphans, hint="a snapshot was removed by hand")
        space = self._space(self.store.used_bytes())
        self._cost_s = self.cpu_clock() - began_s
        return held, space

    def _space(self, used: int) -> Space:
        size = self.store.disk_size()
        return Space(
            used=used,
            reserved=self.store.reserved_bytes(),
            disk_free=self.store.disk_free(),
            disk_size=size,
            floor=self.volume.floor_bytes(size),
        )
