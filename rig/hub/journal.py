"""The requests that a server received, for tests that count requests or search for tokens."""

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class JournalEntry:
    """One request: `host` is `hub` or `cdn`, `path` is without the query."""

    host: str
    method: str
    path: str
    query: str
    authorization: str | None
    range: str | None


class Journal:
    """All requests so far, in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[JournalEntry] = []

    def add(self, seen: JournalEntry) -> None:
        """Record a request."""
        with self._lock:
            self._seen.append(seen)

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            self._seen.clear()

    def requests(self, path: str = "*", *, method: str | None = None, host: str | None = None) -> list[JournalEntry]:
        """Return the requests whose path matches (fnmatch)."""
        with self._lock:
            seen = list(self._seen)
        return [
            one for one in seen
            if fnmatchcase(one.path, path) and method in (None, one.method) and host in (None, one.host)
        ]  # fmt: skip

    def authorizations(self, host: str) -> set[str]:
        """Return all Authorization headers sent to a host."""
        return {one.authorization for one in self.requests(host=host) if one.authorization is not None}
