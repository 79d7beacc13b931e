"""Entries that do not fit into their ModelNodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from controller.state.signal import Signal


@dataclass(slots=True)
class UnplacedEntries:
    """Updated by each node's last reconcile; `changed` carries the id of a model that gained or lost its place."""

    changed: Signal[str]
    _why: dict[str, dict[EntryKey, str]] = field(default_factory=dict, init=False)

    def set(self, node_name: str, crowded: Mapping[EntryKey, str]) -> None:
        """Record which entries do not fit into a node's ModelNode, and why; a new reason alone is no change."""
        before = self._why.pop(node_name, {})
        if crowded:
            self._why[node_name] = {key: before.get(key, why) for key, why in crowded.items()}
        for identity in {key[0] for key in before.keys() ^ crowded.keys()}:
            self.changed.emit(identity)

    def reason(self, node_name: str, key: EntryKey) -> str:
        """Return why an entry does not fit into a node's ModelNode, or an empty string."""
        return self._why.get(node_name, {}).get(key, "")

    def forget(self, node_name: str) -> None:
        """Drop the state of a deleted node."""
        self._why.pop(node_name, None)
