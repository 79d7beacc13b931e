"""What the reflectors know, with the few indexes that decisions need."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from controller.keys import ModelKey
from controller.nodes.view import EntryKey
from controller.placement.demand import Demand, base_model_demand, cache_demand, conflict_of
from controller.placement.groups import Limits, groups_of, limits_of
from controller.placement.targets import is_target
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import Node, Pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import Entry, EntryStatus, ModelNode
from shared.kube.cache import Cache
from shared.kube.objects import Key
from shared.names import snapshot_label

Clock = Callable[[], float]


def _ignore(_before: object, _after: object) -> None:
    """Hold until the watcher says who listens."""


@dataclass(slots=True)
class World:
    """The caches, and questions over them; everything here is memory, nothing waits."""

    default_limits: Limits
    clock: Clock
    nodes: Cache[Node] = field(default_factory=lambda: Cache(_ignore))
    model_nodes: Cache[ModelNode] = field(default_factory=lambda: Cache(_ignore))
    groups: Cache[ModelCacheNodeGroup] = field(default_factory=lambda: Cache(_ignore))
    base_models: Cache[BaseModel] = field(default_factory=lambda: Cache(_ignore))
    cluster_base_models: Cache[ClusterBaseModel] = field(default_factory=lambda: Cache(_ignore))
    caches: Cache[ClusterModelCache] = field(default_factory=lambda: Cache(_ignore))
    agents: Cache[Pod] = field(default_factory=lambda: Cache(_ignore))
    users: Cache[Pod] = field(default_factory=lambda: Cache(_ignore))
    demands: dict[ModelKey, Demand] = field(default_factory=dict, init=False)
    away_since: dict[str, float] = field(default_factory=dict, init=False)
    _agents_of: dict[str, dict[Key, bool]] = field(default_factory=dict, init=False)

    def node(self, name: str) -> Node | None:
        """Return the Node, or None."""
        return self.nodes.get(Key("", name))

    def model_node(self, name: str) -> ModelNode | None:
        """Return the ModelNode of a node, or None."""
        return self.model_nodes.get(Key("", name))

    def declared(self, key: ModelKey) -> BaseModel | ClusterModelCache | None:
        """Return a declared model, or None."""
        name = Key(key.namespace, key.name)
        match key.kind:
            case "BaseModel":
                return self.base_models.get(name)
            case "ClusterBaseModel":
                return self.cluster_base_models.get(name)
            case _:
                return self.caches.get(name)

    def remember(self, key: ModelKey) -> tuple[Demand | None, Demand | None]:
        """Bring the demand of a model up to date; return it before and after."""
        before = self.demands.pop(key, None)
        declared = self.declared(key)
        after: Demand | None = None
        if isinstance(declared, BaseModel):
            after = base_model_demand(key.kind, declared)
        elif declared is not None:
            after = cache_demand(key.kind, declared)
        if after is not None:
            self.demands[key] = after
        return before, after

    def same_id(self, identity: str) -> list[Demand]:
        """Return the demands that have a model id."""
        return [d for d in self.demands.values() if d.id == identity]

    def conflict(self, demand: Demand) -> Demand | None:
        """Return the older demand that has this one's id for another source, or None."""
        return conflict_of(demand, self.same_id(demand.id))

    def group_map(self) -> dict[str, ModelCacheNodeGroup]:
        """Return the groups by name."""
        return {g.metadata.name: g for g in self.groups}

    def groups_of(self, node: Node) -> list[ModelCacheNodeGroup]:
        """Return the groups that a node belongs to."""
        return groups_of(self.groups, node.metadata.name, node.metadata.labels)

    def limits_of(self, node: Node) -> Limits:
        """Return what a node may use."""
        return limits_of(self.groups_of(node), self.default_limits)

    def targets_of(self, demand: Demand) -> list[Node]:
        """Return the nodes that shall hold a model."""
        groups = self.group_map()
        return [n for n in self.nodes if is_target(demand, groups, n.metadata.name, n.metadata.labels)]

    def demands_for(self, node: Node) -> list[Demand]:
        """Return the demands without a conflict that target a node."""
        groups, meta = self.group_map(), node.metadata
        aimed = [d for d in self.demands.values() if is_target(d, groups, meta.name, meta.labels)]
        return [d for d in aimed if self.conflict(d) is None]

    def listed_by(self, uid: str) -> Iterator[tuple[ModelNode, Entry]]:
        """Yield the entries that list a claim of this object."""
        for model_node in self.model_nodes:
            for entry in model_node.spec.entries:
                if any(claim.uid == uid for claim in entry.claims):
                    yield model_node, entry

    def status_of(self, node: Node, key: EntryKey) -> EntryStatus | None:
        """Return the agent's words on an entry, unless they are another node's of the same name."""
        found = self.model_node(node.metadata.name)
        if found is None or found.status.node_uid != node.metadata.uid:
            return None
        return next((s for s in found.status.entries if s.key == key), None)

    def in_use(self, name: str, model_node: ModelNode) -> frozenset[EntryKey]:
        """Return the entries of a node that the watched pods on it select."""
        marks: set[str] = set()
        for pod in self.users:
            if pod.spec.node_name == name and pod.status.phase not in ("Succeeded", "Failed"):
                marks |= pod.spec.node_selector.keys()
        return frozenset(e.key for e in model_node.spec.entries if snapshot_label(*e.key) in marks)

    def agent_changed(self, before: Pod | None, after: Pod | None) -> str:
        """Keep count of the ready agents; return the name of the node concerned."""
        for pod in (before, after):
            if pod is not None and pod.spec.node_name:
                agents = self._agents_of.setdefault(pod.spec.node_name, {})
                agents.pop(pod.key, None)
                if pod is after:
                    agents[pod.key] = pod.status.ready and pod.metadata.deletion_timestamp is None
                self._note_away(pod.spec.node_name)
        known = after or before
        return known.spec.node_name if known else ""

    def agent_ready(self, name: str) -> bool:
        """Return whether a ready agent runs on the node."""
        return any(self._agents_of.get(name, {}).values())

    def away_s(self, name: str) -> float:
        """Return for how long the node has been without a ready agent, in seconds."""
        if self.agent_ready(name):
            return 0.0
        return self.clock() - self.away_since.setdefault(name, self.clock())

    def _note_away(self, name: str) -> None:
        if self.agent_ready(name):
            self.away_since.pop(name, None)
        else:
            self.away_since.setdefault(name, self.clock())
