"""The space of a store: used, free and reserved bytes, and the needs of a model."""

import os
from collections.abc import Iterable

import psutil

from agent.store import unpacked
from agent.store.disk import translated
from agent.store.download_plan import DownloadPlan
from agent.store.overhead import content_overhead, snapshot_overhead
from agent.store.partials import held_ranges
from agent.store.reservations import Bounds, Ledger, StoreCapacity, available_bytes, shortage, why_refused
from agent.store.snapshot import read_snapshot
from agent.store.state import StoreState
from agent.store.tree import allocated_bytes
from shared.errors import InsufficientStorage
from shared.manifest import File, Manifest


class StoreSpace:
    """Measures the store and its disk, and reserves space before a byte is downloaded."""

    def __init__(self, state: StoreState) -> None:
        self._state, self._layout, self._lock = state, state.layout, state.lock
        self._ledger = Ledger()

    # Used and free space.

    def used_bytes(self) -> int:
        """Return the allocated blocks below the root in bytes, each inode counted once, as `du` counts."""
        with translated(f"measuring {self._layout.root}"):
            return allocated_bytes(self._layout.root)

    def free_bytes(self) -> int:
        """Return how many more bytes the file system can take."""
        with translated(f"reading the free space of {self._layout.root}"):
            return self._state.disk.free_bytes(self._layout.root)

    def disk_bytes(self) -> int:
        """Return the size of the file system in bytes, used and free."""
        with translated(f"reading the size of {self._layout.root}"):
            return psutil.disk_usage(str(self._layout.root)).total

    # Reservations.

    def reserved_bytes(self) -> int:
        """Return the bytes that are reserved and have not arrived."""
        with self._lock:
            return self._ledger.reserved()

    def reserve(self, key: str, need: int, limit: int, floor: int) -> None:
        """Reserve `need` bytes for a key, replacing its previous reservation. An exact fit is accepted.

        Args:
            key: The reservation's name.
            need: Bytes to reserve.
            limit: Limit on the size of the store in bytes, as `du` counts it (0: no limit).
            floor: Bytes of the file system that must stay free.

        Raises:
            InsufficientStorage: The bytes do not fit; the message has the numbers.
            StoreFailure: The space could not be read.
        """
        with self._lock, translated(f"measuring {self._layout.root}"):
            self._check_fit(key, need, Bounds(limit, floor))
            self._ledger.reserve(key, need, Bounds(limit, floor))

    def renew(self, key: str, need: int) -> None:
        """Change a key's reservation to `need` bytes, under its original bounds.

        For a key without a reservation, only check that the disk has space.
        """
        with self._lock, translated(f"measuring {self._layout.root}"):
            bounds = self._ledger.bounds(key)
            self._check_fit(key, need, bounds or Bounds())
            if bounds:
                self._ledger.reserve(key, need, bounds)

    def renew_for(self, key: str, plan: DownloadPlan, identity: str) -> None:
        """Increase a key's reservation, under its original bounds, if the model needs more by now.

        Call it after `Incoming.pin`, from which on the need only shrinks. Raises InsufficientStorage, StoreFailure.
        """
        with self._lock:
            bounds, reserved = self._ledger.bounds(key), self._ledger.reserved_for(key)
        if bounds and (need := self.need_bytes(plan, identity, bounds.limit)) > reserved:
            self.renew(key, need)

    def count_arrived(self, key: str, size_bytes: int) -> None:
        """Subtract bytes that are on the disk now from a reservation; negative if they were discarded."""
        with self._lock:
            self._ledger.count_arrived(key, size_bytes)

    def release(self, key: str) -> None:
        """Drop the reservation of a key."""
        with self._lock:
            self._ledger.release(key)

    def available_to_unpack(self, key: str, plan: DownloadPlan) -> int:
        """Return how many bytes the plan's archives may unpack to under the bounds of this key's reservation."""
        with self._lock, translated(f"measuring {self._layout.root}"):
            capacity = self._capacity(self._ledger.bounds(key) or Bounds())
            left = available_bytes(self._ledger.reserved(excluding=key), capacity)
            pinned = unpacked.pinned_bytes(self._state.inventory, set(plan.archive_keys.values()))
            return max(0, left) + pinned

    # The needs of a model.

    def need_bytes(self, plan: DownloadPlan, identity: str, limit: int) -> int:
        """Return how many bytes to reserve for a model; what it takes beyond its files only counts under a limit."""
        return self.missing_bytes(plan) + (self.overhead_bytes(plan, identity) if limit else 0)

    def missing_bytes(self, plan: DownloadPlan) -> int:
        """Return how many bytes are missing, not counting those already in unfinished files.

        The files of archives count in addition to the archives, as far as they are known.
        """
        fetched = sum(
            file.size - held_ranges(self._layout.partial, key, file.size, digest=bool(file.digest)).size_bytes
            for key, file in self._missing(plan).items()
        )
        if not plan.archives:
            return fetched
        with self._lock, translated(f"reading {self._layout.partial}"):
            return fetched + unpacked.missing_bytes(self._layout, self._state.inventory, plan)

    def overhead_bytes(self, plan: DownloadPlan, identity: str) -> int:
        """Return the disk space beyond `missing_bytes`: partly filled blocks, and directories and mark of a new model.

        For the files of archives, use `unpacked_overhead_bytes`.
        """
        block = self._disk_block()
        found = read_snapshot(self._layout, self._layout.snapshot(identity, plan.manifest.revision))
        is_new = found is None or found.manifest_digest != plan.digest
        content = content_overhead(self._missing(plan).values(), block)
        return content + (snapshot_overhead(plan.manifest, identity, block) if is_new else 0)

    def unpacked_overhead_bytes(self, members: Manifest, missing: Iterable[File]) -> int:
        """Return how many bytes an archive's files take beyond their content; `missing` are those not here yet."""
        block = self._disk_block()
        return content_overhead(missing, block) + snapshot_overhead(members, "", block)

    def _missing(self, plan: DownloadPlan) -> dict[str, File]:
        inventory = self._state.inventory
        with self._lock:
            complete = unpacked.find_complete(inventory, plan)
        needed = plan.contents(without=complete)
        missing: dict[str, File] = {}
        for key, file in needed.items():
            with self._lock:  # separately for each: downloads wait for it
                if not inventory.find_blob(key, file.size):
                    missing[key] = file
        return missing

    def _disk_block(self) -> int:
        with translated(f"reading the size of {self._layout.root}"):
            return os.statvfs(self._layout.root).f_frsize

    def _check_fit(self, key: str, need: int, bounds: Bounds) -> None:
        reserved, capacity = self._ledger.reserved(excluding=key), self._capacity(bounds)
        if refusal := why_refused(need, reserved, capacity):
            raise InsufficientStorage(refusal, shortage(need, reserved, capacity))

    def _capacity(self, bounds: Bounds) -> StoreCapacity:
        return StoreCapacity(self._state.used.read(), bounds.limit, self.free_bytes(), bounds.floor)
