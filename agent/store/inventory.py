"""The contents of the disk: snapshots by their marks, and the known contents by source."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent.store.disk import raise_if_exhausted
from agent.store.layout import Layout
from agent.store.snapshot import Snapshot, content_keys, damaged_paths, is_untouched, read_snapshot
from agent.store.tree import parents_of
from shared.paths import COMPLETED

_PIN = re.compile(r"^([0-9a-f]{64}(?:-[0-9a-f]{64})?)\.([0-9a-f]{64})$")
_Stamp = tuple[int, int, int]


class Inventory:
    """Reads the directories under one root and caches the marks. Not thread-safe."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._read: dict[Path, tuple[_Stamp, Snapshot]] = {}
        self._known: dict[str, str] | None = None

    def snapshots(self) -> list[Snapshot]:
        """Return every snapshot with a valid mark; `damaged` reflects a fresh stat."""
        marked = self.marked()
        return [replace(s, damaged=tuple(damaged_paths(self._layout, s))) for s in marked]

    def marked(self) -> list[Snapshot]:
        """Return every snapshot with a valid mark, without checking its files."""
        found = {path: read for path in self._revisions() if (read := self._cached(path))}
        self._read = found
        return [snapshot for _, snapshot in found.values()]

    def directories(self) -> Iterator[Path]:
        """Yield the directory of all models, each model's directory, and each snapshot's directory."""
        yield self._layout.models
        for snapshot in self.marked():
            yield snapshot.path.parent
            yield snapshot.path
            yield from (snapshot.path / path for path in {p for f in snapshot.files for p in parents_of(f.path)})

    def find_blob(self, key: str, size: int) -> str | None:
        """Return the SHA-256 of a content that its source served before and whose blob is still untouched."""
        if self._known is None:
            self._known = dict(self._index())
        sha256 = self._known.get(key)
        return sha256 if sha256 and self.has_blob(sha256, size) else None

    def has_blob(self, sha256: str, size: int) -> bool:
        """Return whether the blob exists, untouched and of this size."""
        with suppress(OSError):
            return is_untouched(os.lstat(f"{self._layout.blobs}/{sha256}"), size)
        return False

    def add_known(self, key: str, sha256: str) -> None:
        """Record one more known content."""
        if self._known is not None:
            self._known[key] = sha256

    def invalidate(self) -> None:
        """Reread everything on the next access, because something was removed."""
        self._known = None

    def pins(self) -> Iterator[tuple[str, str, Path]]:
        """Yield the verified contents that wait for a commit: name, SHA-256 and pin."""
        for name in _names(self._layout.partial):
            if match := _PIN.match(name):
                yield match[1], match[2], self._layout.partial / name

    def _index(self) -> Iterator[tuple[str, str]]:
        for snapshot in self.marked():
            keys = content_keys(snapshot)
            yield from ((keys[f.path], f.sha256) for f in snapshot.files)
        yield from ((key, sha256) for key, sha256, _ in self.pins())

    def _revisions(self) -> Iterator[Path]:
        for model in _names(self._layout.models):
            if not model.startswith("."):
                directory = self._layout.models / model
                yield from (directory / name for name in _names(directory) if not name.startswith("."))

    def _cached(self, path: Path) -> tuple[_Stamp, Snapshot] | None:
        try:
            found = (path / COMPLETED).lstat()
        except OSError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if (cached := self._read.get(path)) and cached[0] == stamp:
            return cached
        snapshot = read_snapshot(self._layout, path)
        return (stamp, snapshot) if snapshot else None


def _names(directory: Path) -> list[str]:
    """Return the names in a directory; none if it does not exist or is a symbolic link. Raises StoreFailure."""
    if directory.is_symlink():
        return []
    try:
        return [path.name for path in directory.iterdir()]
    except OSError as error:
        raise_if_exhausted(error, f"reading {directory}")
        return []
