"""Reserves space for the missing bytes of entries, and releases it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

import structlog

from agent.reconciler.failures import FailureRecorder
from agent.reconciler.observation import Key, Reserved
from agent.reconciler.state_cache import StateCache
from agent.store.download_plan import DownloadPlan
from agent.store.floor import StoreVolume
from agent.store.store import Store
from shared.api.model_node import Entry
from shared.errors import InsufficientStorage, LarderError, StoreFailure

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


def reservation_of(key: Key) -> str:
    """Return the name of an entry's reservation."""
    return "@".join(key)


@dataclass(frozen=True, slots=True)
class Reservations:
    """The reservations of entries, at most one each."""

    cache: StateCache
    store: Store
    volume: StoreVolume
    failures: FailureRecorder
    threads: Executor
    clock: Callable[[], float]

    async def reserve(self, entry: Entry) -> None:
        """Reserve all missing bytes of a prepared entry; if they do not fit, it waits for space."""
        plan = self.cache.plans[entry.key]
        limit, keep, changes = self.cache.storage_limit, self.cache.unfinished_to_keep(), self.cache.disk_changes
        loop = asyncio.get_running_loop()
        try:
            need = await loop.run_in_executor(self.threads, self._reserve_missing, entry, plan, limit, keep)
        except InsufficientStorage as error:
            self.failures.wait_for_space(entry, error)
            with suppress(LarderError):  # the current free space counts from here on, not that of the last scan
                self.cache.note_free_space(await loop.run_in_executor(self.threads, self.store.space.free_bytes))
            if changes != self.cache.disk_changes:
                self.cache.retry_shortages(self.clock())  # the need was computed while files were being removed
        except LarderError as error:
            self.failures.record(entry, error)
        else:
            self.cache.works[entry.key] = Reserved(entry.manifest)
            _LOG.info("space_reserved", model=entry.id, revision=entry.revision, need_bytes=need)

    async def release(self, key: Key) -> None:
        """Release an entry's reservation, if it has one; entries that wait for space ask again."""
        await asyncio.get_running_loop().run_in_executor(self.threads, self.store.space.release, reservation_of(key))
        self.cache.retry_shortages(self.clock())

    def _reserve_missing(self, entry: Entry, plan: DownloadPlan, limit: int, keep: list[DownloadPlan] | None) -> int:
        """Reserve space for the missing bytes and return how many there are.

        If they do not fit and `keep` is given, unfinished files that no plan in `keep` needs are dropped first.

        Raises:
            InsufficientStorage: They do not fit.
            StoreFailure: The store's volume is refused, or cannot be read.
        """
        need = self.store.space.need_bytes(plan, entry.id, limit)
        if need and (why := self.volume.why_refused()):
            raise StoreFailure(why)
        floor = self.volume.floor_bytes(self.store.space.disk_bytes())
        try:
            self.store.space.reserve(reservation_of(entry.key), need, limit, floor)
        except InsufficientStorage:
            if keep is None:
                raise
            self.store.unfinished.drop_unreferenced(keep)
            self.store.space.reserve(reservation_of(entry.key), need, limit, floor)
        return need
