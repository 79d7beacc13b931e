"""Bounds the memory for lists of files, so that the models of one namespace cannot exhaust the agent's memory."""

import threading
from collections.abc import Container, Mapping

from agent.reconciler.list_shares import HeldLists, why_refused
from agent.reconciler.observation import Key
from agent.store.list_size import ListSize
from shared.errors import TooManyFilesOnNode

DEFAULT_BYTES = 512 * 2**20
_MAX_BYTES = 2 * 2**30  # scans take seconds of CPU time with this much
_MEMORY_SHARE = 2


def capacity_bytes(memory_bytes: int) -> int:
    """Return how much of an agent's memory limit lists of files may take; the limit is 0 if it is unknown."""
    return min(memory_bytes // _MEMORY_SHARE, _MAX_BYTES) or DEFAULT_BYTES


class FileLists:
    """The sizes of all lists of files in memory; downloads add theirs before they start. Thread-safe."""

    def __init__(self, capacity_bytes: int = DEFAULT_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._snapshots: dict[Key, int] = {}
        self._downloads: dict[Key, int] = {}
        self._refused: dict[Key, tuple[str, ListSize]] = {}

    def set_snapshots(self, sizes: Mapping[Key, ListSize]) -> None:
        """Set the lists of all complete snapshots, which are never refused."""
        with self._lock:
            self._snapshots = {key: size.memory_bytes for key, size in sizes.items()}

    def check(self, key: Key, manifest: str) -> None:
        """Raise TooManyFilesOnNode if this list was refused before and still does not fit."""
        with self._lock:
            known, size = self._refused.get(key, ("", ListSize()))
            if known == manifest and (why := why_refused(self._held(), key, size)):
                raise TooManyFilesOnNode(why)

    def add(self, key: Key, manifest: str, size: ListSize) -> None:
        """Add the list of a download, or replace it when an archive turns out to have more files.

        Raises TooManyFilesOnNode; the list then no longer counts, and must be dropped.
        """
        with self._lock:
            known, before = self._refused.get(key, ("", ListSize()))
            if known == manifest and before.memory_bytes > size.memory_bytes:
                size = before  # the new size lacks the files of archives, which are not listed yet
            if why := why_refused(self._held(), key, size):
                self._downloads.pop(key, None)
                self._refused[key] = manifest, size
                raise TooManyFilesOnNode(why)
            self._downloads[key] = size.memory_bytes

    def drop(self, key: Key) -> None:
        """Drop the list of a download."""
        with self._lock:
            self._downloads.pop(key, None)

    def forget_refused(self, kept: Container[Key]) -> None:
        """Forget the sizes of refused lists of all other entries."""
        with self._lock:
            self._refused = {key: refused for key, refused in self._refused.items() if key in kept}

    def _held(self) -> HeldLists:
        return HeldLists(self.capacity_bytes, self._snapshots, self._downloads)
