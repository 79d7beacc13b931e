"""The entries that ModelNodes list."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.state.index import Index
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState, ModelNode
from shared.kube.cache import Cache
from shared.kube.objects import Key


@dataclass(slots=True)
class ListedEntries:
    """The entries of all ModelNodes, by snapshot and by claim.

    It contains a snapshot while some ModelNode lists it in a state other than Absent. Snapshots are counted, not kept
    by node: thousands of nodes list the same few.
    """

    model_nodes: Cache[ModelNode]
    _counts: Counter[EntryKey] = field(default_factory=Counter, init=False)
    _nodes_of_owner: Index[str, str] = field(default_factory=Index, init=False)

    def __contains__(self, snapshot: EntryKey) -> bool:
        return snapshot in self._counts

    def on_change(self, before: ModelNode | None, after: ModelNode | None) -> None:
        """Record a change of a ModelNode."""
        known = after or before
        if known is not None:
            self._nodes_of_owner.update(known.metadata.name, _claims(before), _claims(after))
        old, new = _listed(before), _listed(after)
        self._counts.update(new - old)
        for snapshot in old - new:
            self._counts[snapshot] -= 1
            if not self._counts[snapshot]:
                del self._counts[snapshot]

    def nodes_of_owner(self, uid: str) -> list[str]:
        """Return the nodes whose ModelNode lists an entry for the object with this UID."""
        return self._nodes_of_owner.of(uid)

    def entry_of_owner(self, uid: str, key: EntryKey) -> Entry | None:
        """Return an entry with a manifest as some node lists it for this object, or None."""
        if key not in self:
            return None
        entries = (entry for name in self.nodes_of_owner(uid) for entry in self._entries(name))
        return next((e for e in entries if e.key == key and e.manifest and any(c.uid == uid for c in e.claims)), None)

    def sizes_on(self, node_name: str) -> Mapping[EntryKey, int]:
        """Return the entries that a node's ModelNode lists, with their bytes (0: unknown)."""
        return {e.key: e.size for e in self._entries(node_name)}

    def _entries(self, name: str) -> Iterable[Entry]:
        found = self.model_nodes.get(Key("", name))
        return found.spec.entries if found else ()


def _listed(model_node: ModelNode | None) -> frozenset[EntryKey]:
    """Return the entries of a ModelNode, without those that are being removed."""
    entries = model_node.spec.entries if model_node else ()
    return frozenset(e.key for e in entries if e.state != EntryState.ABSENT)


def _claims(model_node: ModelNode | None) -> Iterable[str]:
    return (c.uid for e in model_node.spec.entries for c in e.claims) if model_node else ()
