"""Old revisions that stay on nodes for pods that were given them and have no node yet."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.placement.demand import Demand
from controller.state.keys import EntryKey

HELD_S = 600.0


@dataclass(slots=True)
class RetiredRevisions:
    """Measures how long ago each revision stopped serving, so that no pod can keep one on disks forever.

    Kept in memory: after a restart of the controller, the time begins again.

    Args:
        clock: Seconds.
        is_needed: Returns whether a pod without a node was given a snapshot.
    """

    clock: Callable[[], float]
    is_needed: Callable[[EntryKey], bool]
    _since: dict[str, dict[str, float]] = field(default_factory=dict, init=False)  # by model id and revision

    def on_change(self, before: Demand | None, after: Demand | None) -> None:
        """Record which revision of a model serves."""
        if after is None:
            if before is not None:
                self._since.pop(before.id, None)
            return
        since = self._since.setdefault(after.id, {})
        if before is not None and before.serving not in ("", after.serving):
            since[before.serving] = self.clock()
        since.pop(after.serving, None)
        if not since:
            del self._since[after.id]

    def left_s(self, snapshot: EntryKey) -> float:
        """Return how many more seconds a revision that no longer serves stays on nodes; 0 if no pod needs it."""
        if not self.is_needed(snapshot):
            return 0.0
        return self._recent_s(snapshot)

    def is_recent(self, snapshot: EntryKey) -> bool:
        """Return whether a revision served until recently, so that nodes may still get it."""
        return self._recent_s(snapshot) > 0

    def _recent_s(self, snapshot: EntryKey) -> float:
        since = self._since.setdefault(snapshot[0], {}).setdefault(snapshot[1], self.clock())
        return max(0.0, since + HELD_S - self.clock())
