"""Maps between the object keys that a URI covers and the paths of a manifest."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from shared.errors import AuthDenied, SourceNotFound, Unreachable
from shared.http.heads import LENGTH
from shared.manifest import File

T = TypeVar("T")


class PrefixUri(Protocol):
    """A URI that names an object or everything below a prefix; an empty prefix means the whole bucket."""

    @property
    def prefix(self) -> str:
        """The key of the object, or the common prefix of all keys; no slash at either end."""
        ...


def beginning_of(prefix: str) -> str:
    """Return the string that every key below a prefix starts with."""
    return f"{prefix}/" if prefix else ""


def path_below(prefix: str, key: str, size_bytes: int) -> str | None:
    """Return the part of a key after `prefix/`; None for other keys and for empty directory placeholders."""
    beginning = beginning_of(prefix)
    if not key.startswith(beginning) or (key.endswith("/") and not size_bytes):
        return None
    return key.removeprefix(beginning)


def size_of(headers: Mapping[str, str], name: str) -> int:
    """Return the object size from a HEAD response; raises Unreachable if it has none."""
    text = headers.get("Content-Length") or ""
    if not LENGTH.fullmatch(text):
        raise Unreachable(f"the store does not state the size of {name!r} (Content-Length); the request is repeated")
    return int(text)


def choose_files(
    uri: PrefixUri,
    exact: File | None,
    below: Callable[[], Iterable[File]],
    *,
    place: str = "bucket",
    thing: str = "object",
) -> list[File]:
    """Return the object that a URI names exactly, else all objects below its prefix.

    Raises SourceNotFound if there is neither, and what `below` raises. `place` and `thing` are the terms of the store.
    """
    files = [exact] if exact else list(below())
    if not files and not uri.prefix:
        raise SourceNotFound(f"{uri}: the {place} is empty")
    if not files:
        raise SourceNotFound(f"{uri}: the {place} has neither this {thing} nor anything below {uri.prefix}/")
    return files


def last_name(prefix: str) -> str:
    """Return the manifest path of the object that a prefix names exactly."""
    return prefix.rpartition("/")[2]


class PrefixKeys:
    """The keys of one prefix; remembers what was found. Thread-safe."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def open(self, path: str, open_key: Callable[[str], T]) -> T:
        """Return what `open_key` returns for the key of a path; if none opens, raises the error for its last candidate.

        Only a path equal to the last name of the prefix has two candidates: the prefix itself, and a key below it.
        """
        *likely, last = self._keys_of(path)
        for key in likely:
            try:
                opened = open_key(key)
            except (SourceNotFound, AuthDenied):  # stores answer 403 for a missing object if the caller may not list
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
        below = f"{beginning_of(self._prefix)}{path}"
        return [self._prefix, below] if path == last_name(self._prefix) else [below]

    def _remember(self, path: str, key: str) -> None:
        with self._lock:
            self._known[path] = key
