"""The snapshots that any ModelNode lists to be on its node."""

from collections import Counter
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from shared.api.model_node import EntryState, ModelNode


@dataclass(slots=True)
class ListedSnapshots:
    """Counts the ModelNodes that list each snapshot: thousands of nodes list the same few."""

    _counts: Counter[EntryKey] = field(default_factory=Counter, init=False)

    def __contains__(self, snapshot: EntryKey) -> bool:
        return snapshot in self._counts

    def move(self, before: ModelNode | None, after: ModelNode | None) -> None:
        """Record a change of a ModelNode."""
        old, new = _listed(before), _listed(after)
        self._counts.update(new - old)
        for snapshot in old - new:
            self._counts[snapshot] -= 1
            if not self._counts[snapshot]:
                del self._counts[snapshot]


def _listed(model_node: ModelNode | None) -> frozenset[EntryKey]:
    """Return what a ModelNode lists; what is being removed is no longer listed."""
    entries = model_node.spec.entries if model_node else ()
    return frozenset(e.key for e in entries if e.state != EntryState.ABSENT)
