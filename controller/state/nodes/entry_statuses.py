"""Agents' statuses of the entries in their ModelNodes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.state.keys import EntryKey
from shared.api.core import Node
from shared.api.model_node import EntryStatus, ModelNode, Phase
from shared.kube.cache import Cache
from shared.kube.objects import Key

Statuses = Mapping[EntryKey, EntryStatus]
_NO_STATUSES: Statuses = {}
_COMPLETE = (Phase.READY, Phase.REPAIRING)


@dataclass(slots=True)
class EntryStatuses:
    """Indexes a ModelNode's statuses by entry on first use."""

    model_nodes: Cache[ModelNode]
    _by_entry: dict[str, tuple[ModelNode, Statuses]] = field(default_factory=dict, init=False)
    _multi_revision: dict[str, tuple[ModelNode, Mapping[str, tuple[str, ...]]]] = field(
        default_factory=dict, init=False
    )

    def forget(self, name: str) -> None:
        """Drop the index of a node whose ModelNode changed."""
        self._by_entry.pop(name, None)
        self._multi_revision.pop(name, None)

    def of(self, node: Node) -> Statuses:
        """Return the agent's status of every entry; empty if they belong to an earlier node of the same name."""
        found = self._own(node)
        if found is None:
            return _NO_STATUSES
        known = self._by_entry.get(node.metadata.name)
        if known is None or known[0] is not found:
            known = self._by_entry[node.metadata.name] = found, {s.key: s for s in found.status.entries}
        return known[1]

    def complete_on(self, node: Node, identity: str, likely: Iterable[str]) -> tuple[str, ...]:
        """Return a model's revisions that are complete on a node; `likely` are those that most nodes have."""
        revisions = self._multi_revision_on(node).get(identity)
        if revisions is not None:
            return revisions
        statuses = self.of(node)
        found = ((revision, statuses.get((identity, revision))) for revision in dict.fromkeys(likely))
        return tuple(revision for revision, status in found if status is not None and status.phase in _COMPLETE)

    def _multi_revision_on(self, node: Node) -> Mapping[str, tuple[str, ...]]:
        """Return the complete revisions of each model with several entries on a node, which is rare."""
        found, name = self._own(node), node.metadata.name
        if found is None:
            return {}
        known = self._multi_revision.get(name)
        if known is None or known[0] is not found:
            counts = Counter(status.id for status in found.status.entries)
            ids = {identity for identity, count in counts.items() if count > 1}
            complete = [s for s in found.status.entries if s.id in ids and s.phase in _COMPLETE] if ids else []
            revisions = {identity: tuple(s.revision for s in complete if s.id == identity) for identity in ids}
            known = self._multi_revision[name] = found, revisions
        return known[1]

    def _own(self, node: Node) -> ModelNode | None:
        found = self.model_nodes.get(Key("", node.metadata.name))
        return found if found is not None and found.status.node_uid == node.metadata.uid else None
