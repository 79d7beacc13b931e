"""Maps changes to the node groups, or to the grants, to reconcile."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.groups.keys import GrantsKey, GroupKey
from controller.placement.groups import is_member
from controller.state.changes import ModelNodeChange
from controller.state.cluster_state import ClusterState
from shared.api.core import Node
from shared.api.model_cache_node_group import ModelCacheNodeGroup


@dataclass(frozen=True, slots=True)
class GroupEventHandler:
    """Yields the keys of the groups to reconcile; None means that the object does not exist."""

    cluster: ClusterState

    def of_group(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> Iterator[GroupKey]:
        """Yield the group, and all groups that share nodes with it."""
        for group in (before, after):
            if group is not None:
                yield GroupKey(group.metadata.name)
                members = (n for n in self.cluster.nodes if is_member(group, n.metadata.name, n.metadata.labels))
                yield from (GroupKey(other) for node in members for other in self.cluster.membership.of(node))

    def of_node(self, before: Node | None, after: Node | None) -> Iterator[GroupKey]:
        """Yield the groups that a node is or was in."""
        nodes = (node for node in (before, after) if node is not None)
        return (GroupKey(name) for node in nodes for name in self.cluster.membership.of(node))

    def of_model_node(self, change: ModelNodeChange) -> Iterator[GroupKey]:
        """Yield the groups of a node whose used bytes changed."""
        node = self.cluster.node(change.name)
        if node is not None and change.used_changed:
            yield from (GroupKey(name) for name in self.cluster.membership.of(node))


@dataclass(frozen=True, slots=True)
class GrantsEventHandler:
    """Yields the single grants key if a change may affect who may download."""

    cluster: ClusterState

    def of_any(self, *_: object) -> Iterator[GrantsKey]:
        """Yield the key for every change of a node or a group."""
        yield GrantsKey()

    def of_model_node(self, change: ModelNodeChange) -> Iterator[GrantsKey]:
        """Yield the key, unless only numbers changed."""
        if change.spec_changed or change.statuses:
            yield GrantsKey()

    def of_agent(self, name: str) -> Iterator[GrantsKey]:
        """Yield the key for an agent that became ready or went away."""
        if self.cluster.node(name) is not None:
            yield GrantsKey()
