"""Which entries the ModelNodes have no room for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from controller.state.signal import Signal


@dataclass(slots=True)
class Crowding:
    """Kept for each node by its last turn; `changed` tells the id of a model that won or lost its place."""

    changed: Signal[str]
    _why: dict[str, dict[EntryKey, str]] = field(default_factory=dict, init=False)

    def note(self, node_name: str, crowded: Mapping[EntryKey, str]) -> None:
        """Take which entries a node's ModelNode has no room for, and why; words change only with the entries."""
        before = self._why.pop(node_name, {})
        if crowded:
            self._why[node_name] = {key: before.get(key, why) for key, why in crowded.items()}
        for identity in {key[0] for key in before.keys() ^ crowded.keys()}:
            self.changed.tell(identity)

    def why(self, node_name: str, key: EntryKey) -> str:
        """Return why a node's ModelNode has no room for an entry; empty where it has."""
        return self._why.get(node_name, {}).get(key, "")

    def forget(self, node_name: str) -> None:
        """Drop what was known of a node that is gone."""
        self._why.pop(node_name, None)
