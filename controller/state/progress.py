"""Download progress as agents report it, kept in memory and never written to the API server byte by byte."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from shared.api.wire import EntryProgress

STEP_PERCENT = 5
_MAX_INCOMPLETE = 99


def coarse_percent(done_bytes: int, total_bytes: int) -> int:
    """Return the percentage done in coarse steps, because each step is a write to the API server."""
    if total_bytes <= 0 or done_bytes <= 0:
        return 0
    return min(_MAX_INCOMPLETE, 100 * done_bytes // total_bytes // STEP_PERCENT * STEP_PERCENT)


@dataclass(frozen=True, slots=True)
class Mark:
    """The last report of one entry."""

    done_bytes: int
    total_bytes: int

    @property
    def percent(self) -> int:
        """Its progress in coarse steps."""
        return coarse_percent(self.done_bytes, self.total_bytes)


@dataclass(slots=True)
class ProgressTracker:
    """The last reports of every node; `on_change` receives the node and entry after each visible step."""

    clock: Callable[[], float]
    on_change: Callable[[str, EntryKey], None]
    _marks: dict[str, dict[EntryKey, Mark]] = field(default_factory=dict, init=False)
    _grew_at: dict[str, float] = field(default_factory=dict, init=False)
    _highest: dict[str, dict[EntryKey, int]] = field(default_factory=dict, init=False)

    def report(self, node: str, entries: Iterable[EntryProgress], sizes: Mapping[EntryKey, int]) -> None:
        """Record a report of running downloads.

        A download counts as growing when it exceeds everything reported since its node got its grant, up to its size,
        so no report counts twice.

        Args:
            node: The node.
            entries: All running downloads of the node; those that its ModelNode does not list are ignored.
            sizes: The entries in its ModelNode, with their bytes (0: unknown).
        """
        before, highest = self._marks.get(node, {}), self._highest.setdefault(node, {})
        known = [((p.id, p.revision), Mark(p.done, p.total)) for p in entries if (p.id, p.revision) in sizes]
        self._marks[node] = dict(known)
        for key, mark in known:
            done_bytes = min(mark.done_bytes, sizes[key]) if sizes[key] else mark.done_bytes
            if done_bytes > highest.get(key, 0):
                highest[key] = done_bytes
                self._grew_at[node] = self.clock()
        for key in highest.keys() - sizes.keys():
            del highest[key]
        for key, mark in known:
            if key not in before or mark.percent != before[key].percent:
                self.on_change(node, key)

    def of(self, node: str, key: EntryKey) -> tuple[int, int]:
        """Return the bytes done and in total of an entry; zeros if nothing was reported."""
        mark = self._marks.get(node, {}).get(key)
        return (mark.done_bytes, mark.total_bytes) if mark else (0, 0)

    def grew_at(self, node: str) -> float | None:
        """Return when the bytes of any download of a node last grew, on the clock; None if nothing was reported."""
        return self._grew_at.get(node)

    def begin(self, node: str) -> None:
        """Record that a node just got a grant: bytes downloaded earlier no longer count as progress."""
        self._highest.pop(node, None)

    def keep_only(self, nodes: Container[str]) -> None:
        """Drop the reports of all other nodes."""
        for name in [name for name in self._marks if name not in nodes]:
            del self._marks[name]
            self._grew_at.pop(name, None)
            self._highest.pop(name, None)

    def clear(self) -> None:
        """Drop everything, because another replica has led meanwhile and received the reports."""
        self._marks.clear()
        self._grew_at.clear()
        self._highest.clear()
