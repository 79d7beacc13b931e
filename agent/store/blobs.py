"""The blobs of a store: each distinct content once, named by its SHA-256."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.store.disk import translated
from agent.store.layout import Layout
from agent.store.removal import blob_digests, remove_blobs
from agent.store.state import StoreState


@dataclass(frozen=True, slots=True, eq=False)
class BlobPaths(Mapping[str, Path]):
    """The path of each content by SHA-256; made on demand, because a store may have many."""

    layout: Layout
    names: frozenset[str]
    elsewhere: Mapping[str, Path]  # contents whose blobs were removed

    def __getitem__(self, sha256: str) -> Path:
        """Return the path of a content."""
        return self.layout.blob(sha256) if sha256 in self.names else self.elsewhere[sha256]

    def __iter__(self) -> Iterator[str]:
        """Yield the SHA-256 of all contents."""
        yield from self.names
        yield from self.elsewhere

    def __len__(self) -> int:
        """Return the number of contents."""
        return len(self.names) + len(self.elsewhere)


class Blobs:
    """Finds blobs, and removes those that nothing refers to."""

    def __init__(self, state: StoreState) -> None:
        self._state, self._layout, self._lock = state, state.layout, state.lock

    def path(self, sha256: str) -> Path:
        """Return the path of the blob with this digest, whether or not it exists."""
        return self._layout.blob(sha256)

    def paths(self) -> Mapping[str, Path]:
        """Return the path of each content by SHA-256: its blob, or a file of a snapshot if the blob was removed."""
        with self._lock, translated(f"reading {self._layout.blobs}"):
            names = frozenset(blob_digests(self._layout))
            marked = ((s, f) for s in self._state.inventory.marked() for f in s.files if f.sha256 not in names)
            return BlobPaths(self._layout, names, {f.sha256: s.path / f.path for s, f in marked})

    def find(self, key: str, size: int) -> str | None:
        """Return the SHA-256 of a content that its source served before, if its blob is still untouched."""
        with self._lock:
            return self._state.inventory.find_blob(key, size)

    def drop_orphans(self) -> int:
        """Remove blobs that no snapshot names and no download keeps; return how many.

        The agent's own removals leave none, but a snapshot may have been removed by hand.
        """
        with self._lock, translated(f"removing blobs in {self._layout.blobs}"):
            count = self.remove_unreferenced()
            if count:
                self._state.used.invalidate()
                self._state.inventory.invalidate()
            return count

    def remove_unreferenced(self) -> int:
        """Remove blobs that nothing refers to and return how many; the caller holds the lock. Raises OSError."""
        marked = {f.sha256 for snapshot in self._state.inventory.marked() for f in snapshot.files}
        kept = marked | self._state.leaving
        return remove_blobs(self._layout, (d for d in blob_digests(self._layout) if d not in kept))
