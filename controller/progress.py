"""How far downloads are: told by agents, kept in memory, never written to the API server byte by byte."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller.nodes.view import EntryKey
from shared.api.wire import EntryProgress


@dataclass(frozen=True, slots=True)
class Mark:
    """The last report of one entry, and when its bytes last grew, on the loop's clock."""

    progress: EntryProgress
    grew_at: float


@dataclass(slots=True)
class ProgressBook:
    """The last reports of every node; `on_change` gets the node and the entry."""

    clock: Callable[[], float]
    on_change: Callable[[str, EntryKey], None]
    _marks: dict[str, dict[EntryKey, Mark]] = field(default_factory=dict, init=False)

    def report(self, node: str, entries: Iterable[EntryProgress]) -> None:
        """Take a node's report of every download that runs on it."""
        before, now = self._marks.get(node, {}), self.clock()
        after: dict[EntryKey, Mark] = {}
        for progress in entries:
            key = (progress.id, progress.revision)
            old = before.get(key)
            grew = old is None or progress.done > old.progress.done
            after[key] = Mark(progress, now if grew or old is None else old.grew_at)
            if grew:
                self.on_change(node, key)
        self._marks[node] = after

    def of(self, node: str, key: EntryKey) -> tuple[int, int]:
        """Return bytes done and in all of one entry; zeros where nothing was told."""
        mark = self._marks.get(node, {}).get(key)
        return (mark.progress.done, mark.progress.total) if mark else (0, 0)

    def idle_s(self, node: str) -> float:
        """Return for how long nothing has grown on a node that reported downloads; 0 where none was told."""
        marks = self._marks.get(node, {})
        return self.clock() - max(m.grew_at for m in marks.values()) if marks else 0.0

    def forget(self, node: str) -> None:
        """Drop what a node said."""
        self._marks.pop(node, None)
