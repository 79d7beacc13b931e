"""From changes of the world to names in the queue: who is concerned, and nobody else."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from controller.keys import GrantsKey, GroupKey, ModelKey, NodeKey, QueueKey
from controller.placement.demand import Demand
from controller.placement.groups import is_member
from controller.placement.targets import is_target
from controller.world import World
from shared.api.core import Node, Pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.objects import Object
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX

Enqueue = Callable[[QueueKey], None]


@dataclass(slots=True)
class Watcher:
    """Listens to every cache of a world."""

    world: World
    enqueue: Enqueue

    def listen(self) -> None:
        """Take the caches' changes from now on."""
        self.world.nodes.on_change = self._node_changed
        self.world.model_nodes.on_change = self._model_node_changed
        self.world.groups.on_change = self._group_changed
        self.world.agents.on_change = self._agent_changed
        self.world.users.on_change = self._user_changed
        self.world.base_models.on_change = self._model_listener("BaseModel")
        self.world.cluster_base_models.on_change = self._model_listener("ClusterBaseModel")
        self.world.caches.on_change = self._model_listener("ClusterModelCache")

    def enqueue_all(self) -> None:
        """Want everything served once, as a new leader does."""
        self._add(NodeKey(n.metadata.name) for n in self.world.nodes)
        self._add(self.world.demands)
        self._add(GroupKey(g.metadata.name) for g in self.world.groups)
        self.enqueue(GrantsKey())

    def _add(self, keys: Iterable[QueueKey]) -> None:
        for key in keys:
            self.enqueue(key)

    def _model_listener(self, kind: str) -> Callable[[Object | None, Object | None], None]:
        def changed(before: Object | None, after: Object | None) -> None:
            for found in (before, after):
                if found is not None:
                    key = ModelKey(kind, found.metadata.namespace, found.metadata.name)
                    self.enqueue(key)
                    self._demand_changed(*self.world.remember(key))
                    return

        return changed

    def _demand_changed(self, before: Demand | None, after: Demand | None) -> None:
        """A status that says the same in other words concerns no node."""
        if before == after:
            return
        for demand in (before, after):
            if demand is None:
                continue
            self._add(NodeKey(n.metadata.name) for n in self.world.targets_of(demand))
            self._add(NodeKey(found.metadata.name) for found, _ in self.world.listed_by(demand.uid))
            rivals = self.world.same_id(demand.id)
            self._add(ModelKey(d.kind, d.namespace, d.name) for d in rivals if d.uid != demand.uid)
            self._add(NodeKey(n.metadata.name) for d in rivals for n in self.world.targets_of(d))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and _facts(before) == _facts(after):
            return
        for node in (before, after):
            if node is not None:
                self.enqueue(NodeKey(node.metadata.name))
                self._add(self._models_at(node))
                self._add(GroupKey(g.metadata.name) for g in self.world.groups_of(node))
        self.enqueue(GrantsKey())

    def _models_at(self, node: Node) -> Iterator[ModelKey]:
        groups, meta = self.world.group_map(), node.metadata
        for key, demand in self.world.demands.items():
            if is_target(demand, groups, meta.name, meta.labels) or demand.deleting:
                yield key

    def _model_node_changed(self, before: ModelNode | None, after: ModelNode | None) -> None:
        uids: set[str] = set()
        ids: set[str] = set()
        for found in (before, after):
            if found is not None:
                self.enqueue(NodeKey(found.metadata.name))
                uids |= {claim.uid for entry in found.spec.entries for claim in entry.claims}
        old = {s.key: s for s in before.status.entries} if before else {}
        new = {s.key: s for s in after.status.entries} if after else {}
        ids |= {key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        changed_spec = (before and before.spec) != (after and after.spec)
        self._add(k for k, d in self.world.demands.items() if d.id in ids or (changed_spec and d.uid in uids))
        known = after or before
        node = self.world.node(known.metadata.name) if known else None
        if node is not None:
            self._add(GroupKey(g.metadata.name) for g in self.world.groups_of(node))
            self.enqueue(GrantsKey())

    def _group_changed(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> None:
        if before is not None and after is not None and before.spec == after.spec:
            return
        for group in (before, after):
            if group is None:
                continue
            name = group.metadata.name
            self.enqueue(GroupKey(name))
            self._add(k for k, d in self.world.demands.items() if name in d.groups)
            members = [n for n in self.world.nodes if is_member(group, n.metadata.name, n.metadata.labels)]
            self._add(NodeKey(n.metadata.name) for n in members)
            self._add(GroupKey(g.metadata.name) for n in members for g in self.world.groups_of(n))
        self.enqueue(GrantsKey())

    def _agent_changed(self, before: Pod | None, after: Pod | None) -> None:
        name = self.world.agent_changed(before, after)
        node = self.world.node(name) if name else None
        if node is not None:
            self.enqueue(NodeKey(name))
            self._add(self._models_at(node))
            self.enqueue(GrantsKey())

    def _user_changed(self, before: Pod | None, after: Pod | None) -> None:
        self._add(NodeKey(pod.spec.node_name) for pod in (before, after) if pod is not None and pod.spec.node_name)


def _facts(node: Node) -> tuple[object, ...]:
    """Return what of a node matters here: heartbeats and our own labels do not."""
    own = (READY_PREFIX, SNAPSHOT_PREFIX)
    labels = {k: v for k, v in node.metadata.labels.items() if not k.startswith(own)}
    return node.metadata.uid, labels, node.ready, node.metadata.deletion_timestamp
