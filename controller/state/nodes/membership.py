"""Group membership of nodes, and the limits that follow from it."""

from dataclasses import dataclass, field

from controller.placement.groups import NodeLimits, groups_of, limits_of
from shared.api.core import Node
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.kube.cache import Cache
from shared.kube.objects import Key


@dataclass(slots=True)
class Membership:
    """Caches the groups of each node; a node in no group has the default limits."""

    nodes: Cache[Node]
    groups: Cache[ModelCacheNodeGroup]
    default_limits: NodeLimits
    _names: dict[str, tuple[Node, frozenset[str]]] = field(default_factory=dict, init=False)

    def of(self, node: Node) -> frozenset[str]:
        """Return the names of a node's groups."""
        meta = node.metadata
        known = self._names.get(meta.name)
        if known is not None and known[0] is node:
            return known[1]
        names = frozenset(g.metadata.name for g in groups_of(self.groups, meta.name, meta.labels))
        if self.nodes.get(Key("", meta.name)) is node:
            self._names[meta.name] = node, names
        return names

    def groups_of(self, node: Node) -> list[ModelCacheNodeGroup]:
        """Return a node's groups, sorted by name."""
        return [group for name in sorted(self.of(node)) if (group := self.groups.get(Key("", name))) is not None]

    def members_of(self, name: str) -> list[Node]:
        """Return the nodes of a group."""
        return [n for n in self.nodes if name in self.of(n)]

    def limits_of(self, node: Node) -> NodeLimits:
        """Return the limits of a node."""
        return limits_of(self.groups_of(node), self.default_limits)

    def is_limited(self, node: Node) -> bool:
        """Return whether any group of the node limits how many of its nodes may download concurrently."""
        return any(g.spec.max_concurrent_nodes for g in self.groups_of(node))

    def forget(self, name: str) -> None:
        """Drop the cached groups of a node that changed."""
        self._names.pop(name, None)

    def clear(self) -> None:
        """Drop everything, because a group changed."""
        self._names.clear()
