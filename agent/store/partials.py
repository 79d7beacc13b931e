"""Unfinished files: one a content, written by one thread at a time, there again after a kill."""

import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.store.disk import translated
from agent.store.tree import remove_tree

SUFFIX = ".part"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Partial:
    """The bytes of one file that are here so far: a prefix, as long as `held`."""

    def __init__(self, key: str, path: Path, descriptor: int, size: int) -> None:
        self.key, self.path, self.descriptor, self.size = key, path, descriptor, size
        self.held = os.fstat(descriptor).st_size

    def write(self, data: memoryview) -> None:
        """Append. Raises InsufficientStorage, StoreFailure."""
        with translated(f"writing {self.path}"):
            while data:
                written = os.pwrite(self.descriptor, data, self.held)
                self.held += written
                data = data[written:]

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill the buffer from `offset` on; 0 at the end. Raises StoreFailure."""
        with translated(f"reading {self.path}"):
            return os.preadv(self.descriptor, [buffer], offset)

    def discard(self) -> None:
        """Start over with nothing. Raises StoreFailure."""
        with translated(f"emptying {self.path}"):
            os.ftruncate(self.descriptor, 0)
        self.held = 0


class Holds:
    """Which contents are being written now; the second who wants one waits for the first."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._changed = threading.Condition()

    def take(self, key: str, stop: threading.Event) -> bool:
        """Wait for the content and hold it; False where `stop` was set first."""
        with self._changed:
            while key in self._held:
                if stop.is_set():
                    return False
                self._changed.wait(0.2)  # the event has no condition of its own to wake us
            self._held.add(key)
            return True

    def free(self, keys: Iterable[str]) -> set[str]:
        """Return those that nobody holds."""
        with self._changed:
            return set(keys) - self._held

    def give_back(self, key: str) -> None:
        """Let the next one have it."""
        with self._changed:
            self._held.discard(key)
            self._changed.notify_all()


@contextmanager
def opened_partial(directory: Path, key: str, size: int) -> Iterator[Partial]:
    """Yield the partial file of a content; the caller holds the key. Raises InsufficientStorage, StoreFailure."""
    path = directory / f"{key}{SUFFIX}"
    with translated(f"opening {path}"):
        descriptor = _open(path)
    try:
        partial = Partial(key, path, descriptor, size)
        if partial.held > size:
            partial.discard()
        yield partial
    finally:
        os.close(descriptor)


def held_bytes(directory: Path, key: str) -> int:
    """Return how much of a content is here."""
    with suppress(OSError):
        found = (directory / f"{key}{SUFFIX}").lstat()
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0


def _open(path: Path) -> int:
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            remove_tree(path)  # planted; what a link names stays
        elif not found.st_mode & stat.S_IWUSR:
            path.chmod(0o600)  # a kill came between its last byte and its new name
    return os.open(path, _FLAGS, 0o600)
