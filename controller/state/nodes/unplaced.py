"""Entries that do not fit into their ModelNodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from controller.state.signal import Signal


@dataclass(slots=True)
class UnplacedEntries:
    """Set by each node's reconcile; `changed` carries the id of a model that gained or lost its place."""

    changed: Signal[str]
    _reasons: dict[str, dict[EntryKey, str]] = field(default_factory=dict, init=False)

    def set(self, node_name: str, unplaced: Mapping[EntryKey, str]) -> None:
        """Record which entries do not fit into a node's ModelNode, and why; a new reason alone is no change."""
        before = self._reasons.pop(node_name, {})
        if unplaced:
            self._reasons[node_name] = {key: before.get(key, reason) for key, reason in unplaced.items()}
        for identity in {key[0] for key in before.keys() ^ unplaced.keys()}:
            self.changed.emit(identity)

    def reason(self, node_name: str, key: EntryKey) -> str:
        """Return why an entry does not fit into a node's ModelNode, or an empty string."""
        return self._reasons.get(node_name, {}).get(key, "")

    def forget(self, node_name: str) -> None:
        """Drop the state of a deleted node."""
        self._reasons.pop(node_name, None)
