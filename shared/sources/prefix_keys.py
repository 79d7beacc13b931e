"""Which object of a bucket a path of the manifest stands for."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from shared.errors import AuthDenied, SourceNotFound

T = TypeVar("T")


def paths_below(prefix: str, entries: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield what follows `prefix/` in each (key, size in bytes), without empty objects that stand for directories."""
    for key, size in entries:
        if size or not key.endswith("/"):
            yield key.removeprefix(f"{prefix}/")


class PrefixKeys:
    """The keys of one prefix; what was found is remembered. Thread-safe."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def open(self, path: str, open_key: Callable[[str], T]) -> T:
        """Return what `open_key` makes of the path's key; raises what it raises for the last one that is possible.

        Only a file with the prefix's own last name has two: the prefix itself, and one below it.
        """
        *likely, last = self._keys_of(path)
        for key in likely:
            try:
                opened = open_key(key)
            except (SourceNotFound, AuthDenied):  # stores say 403 for what is missing to who may not list
                continue
            self._remember(path, key)
            return opened
        opened = open_key(last)
        self._remember(path, last)
        return opened

    def _keys_of(self, path: str) -> list[str]:
        with self._lock:
            if path in self._known:
                return [self._known[path]]
        below = f"{self._prefix}/{path}"
        return [self._prefix, below] if path == self._prefix.rpartition("/")[2] else [below]

    def _remember(self, path: str, key: str) -> None:
        with self._lock:
            self._known[path] = key
