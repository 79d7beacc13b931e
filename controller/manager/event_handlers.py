"""From changes of the world to names in the queue: who is concerned, and nobody else."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from controller.placement.demand import Declared, Demand
from controller.placement.groups import is_member
from controller.state.cluster_state import TERMINAL, ClusterState
from controller.state.keys import GrantsKey, GroupKey, ModelKey, NodeKey, QueueKey, ServiceKey
from controller.state.service_references import refers_to
from shared.api.core import Node, Pod
from shared.api.inference_service import InferenceService
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import EntryStatus, ModelNode
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX, uses_label

_PATIENCE_S_PER_NODE = 0.0005
_PATIENCE_S_PER_MODEL = 0.0005  # a look at a node is a look at every model
_LONGEST_PATIENCE_S = 2.0
_SERVICES_PATIENCE_S = 0.5  # a model's figures change often while nodes fetch it


@dataclass(slots=True)
class Watcher:
    """Listens to a world. What many nodes can cause together waits a little, for one turn will do for all of them."""

    cluster: ClusterState
    enqueue: Callable[[QueueKey], None]
    enqueue_after: Callable[[QueueKey, float], None]

    def listen(self) -> None:
        """Take the world's changes from now on."""
        self.cluster.on_node = self._node_changed
        self.cluster.on_model_node = self._model_node_changed
        self.cluster.on_group = self._group_changed
        self.cluster.on_agent = self._agent_changed
        self.cluster.on_user = self._user_changed
        self.cluster.on_model = self._model_changed
        self.cluster.on_other = self._other_changed
        self.cluster.on_service = self._service_changed
        self.cluster.on_crowded = self._crowded_changed

    def enqueue_all(self) -> None:
        """Want everything served once, as a new leader does."""
        self._add(_names(self.cluster.nodes))
        self._add(list(self.cluster.demands))
        self._add(list(self.cluster.others))
        self._add(GroupKey(g.metadata.name) for g in self.cluster.groups)
        self._add(_service_key(service) for service in self.cluster.services)
        self.enqueue(GrantsKey())

    def _add(self, keys: Iterable[QueueKey]) -> None:
        for key in keys:
            self.enqueue(key)

    def _add_soon(self, keys: Iterable[QueueKey]) -> None:
        patience_s = min(len(self.cluster.nodes) * _PATIENCE_S_PER_NODE, _LONGEST_PATIENCE_S)
        for key in keys:
            self.enqueue_after(key, patience_s)

    def _add_nodes(self, keys: Iterable[NodeKey]) -> None:
        """Want nodes served once for all that changes in a little while: each turn may write the whole spec."""
        patience_s = min(len(self.cluster.demands) * _PATIENCE_S_PER_MODEL, _LONGEST_PATIENCE_S)
        for key in keys:
            self.enqueue_after(key, patience_s)

    def _model_changed(self, key: ModelKey, before: Demand | None, after: Demand | None) -> None:
        """A status that says the same in other words concerns no node."""
        self.enqueue(key)
        known = [demand for demand in (before, after) if demand is not None]
        for service in self.cluster.services:
            if any(refers_to(service, demand) for demand in known):
                self.enqueue_after(_service_key(service), _SERVICES_PATIENCE_S)
        if before == after:
            return
        for demand in known:
            self._add_nodes(_names(self.cluster.targets_of(demand)))
            self._add_nodes(NodeKey(name) for name in self.cluster.nodes_of_claim(demand.uid))
            rivals = [k for k in self.cluster.keys_of_id(demand.id) if k != key]
            self._add(rivals)
            self._add_nodes(n for k in rivals for n in _names(self.cluster.targets_of(self.cluster.demands[k])))

    def _other_changed(self, key: ModelKey, before: Declared | None, after: Declared | None) -> None:
        """One that Larder is found not to manage is given back; when it goes, so does what nodes kept for it."""
        if after is not None:
            self.enqueue(key)
        elif before is not None:
            self._add_nodes(NodeKey(name) for name in self.cluster.nodes_of_claim(before.metadata.uid))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and _facts(before) == _facts(after):
            return
        for node in (before, after):
            if node is not None:
                self.enqueue(NodeKey(node.metadata.name))
                self._add_soon(self._models_at(node))
                self._add_soon(GroupKey(name) for name in self.cluster.member_of(node))
        self.enqueue(GrantsKey())

    def _models_at(self, node: Node) -> Iterator[ModelKey]:
        """Yield the models that shall be on a node, and those that may wait for it to be clean of them."""
        for key, demand in self.cluster.demands.items():
            if demand.deleting or self.cluster.is_target(demand, node):
                yield key

    def _model_node_changed(self, before: ModelNode | None, after: ModelNode | None) -> None:
        """Figures (bytes used, disk free) are told by every node now and then: they concern its groups alone."""
        known = after or before
        if known is None:
            return
        name = known.metadata.name
        old, new = _told(before), _told(after)
        asked = before is None or after is None or before.spec != after.spec
        if asked or old != new:
            self._add_nodes([NodeKey(name)])
            self.enqueue(GrantsKey())
            self._add_soon(self._models_told_of(old, new))
        if asked:
            self._add_soon(self._models_asked_for(before, after))
        node = self.cluster.node(name)
        if node is not None and (before is None or after is None):
            self._add_soon(self._models_at(node))  # one that is not ours may come, or go
        if node is not None and _figures(before) != _figures(after):
            self._add_soon(GroupKey(group) for group in self.cluster.member_of(node))

    def _models_told_of(self, old: "_Told", new: "_Told") -> Iterator[ModelKey]:
        for identity in {key[1] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}:
            yield from self.cluster.keys_of_id(identity)

    def _models_asked_for(self, before: ModelNode | None, after: ModelNode | None) -> Iterator[ModelKey]:
        """Yield the models of entries that changed: one that is being deleted waits for the last to go."""
        old, new = ({e.key: e for e in found.spec.entries} if found else {} for found in (before, after))
        for identity in {key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}:
            yield from self.cluster.keys_of_id(identity)

    def _group_changed(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> None:
        if before is not None and after is not None and before.spec == after.spec:
            return
        for group in (before, after):
            if group is None:
                continue
            name = group.metadata.name
            self.enqueue(GroupKey(name))
            self._add(k for k, d in self.cluster.demands.items() if name in d.groups)
            members = [n for n in self.cluster.nodes if is_member(group, n.metadata.name, n.metadata.labels)]
            self._add(_names(members))
            self._add(GroupKey(other) for n in members for other in self.cluster.member_of(n))
        self.enqueue(GrantsKey())

    def _agent_changed(self, name: str) -> None:
        node = self.cluster.node(name)
        if node is not None:
            self.enqueue(NodeKey(name))
            self._add_soon(self._models_at(node))
            self.enqueue(GrantsKey())

    def _crowded_changed(self, identity: str) -> None:
        self._add_soon(self.cluster.keys_of_id(identity))

    def _user_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is not None and _use(before) == _use(after):
            return
        known = [pod for pod in (before, after) if pod is not None]
        self._add(NodeKey(pod.spec.node_name) for pod in known if pod.spec.node_name)
        used = {label for pod in known for label in pod.metadata.labels}
        self._add(key for key, demand in self._leaving() if uses_label(demand.id) in used)
        on_claims = [(key, demand) for key, demand in self.cluster.demands.items() if demand.on_claim]
        self._add_soon(key for key, demand in on_claims if uses_label(demand.id) in used)  # may wait for its volume

    def _service_changed(self, before: InferenceService | None, after: InferenceService | None) -> None:
        """A service that goes, or names another model, may be the last user of one that is being deleted."""
        known = [service for service in (before, after) if service is not None]
        self._add(_service_key(service) for service in known)
        self._add(key for key, d in self._leaving() if any(refers_to(service, d) for service in known))

    def _leaving(self) -> list[tuple[ModelKey, Demand]]:
        """Return the models that are being deleted: each may wait for its last user."""
        return [(key, demand) for key, demand in self.cluster.demands.items() if demand.deleting]


_Told = dict[tuple[str, str, str], EntryStatus]  # by the node's uid, the model's id and the revision


def _told(model_node: ModelNode | None) -> _Told:
    """Return the agent's words; those of another Node of the same name are other words."""
    if model_node is None:
        return {}
    return {(model_node.status.node_uid, *s.key): s for s in model_node.status.entries}


def _figures(model_node: ModelNode | None) -> tuple[object, ...]:
    """Return what a group counts together."""
    return (model_node.status.node_uid, model_node.status.used) if model_node else ()


def _service_key(service: InferenceService) -> ServiceKey:
    return ServiceKey(service.metadata.namespace, service.metadata.name)


def _names(nodes: Iterable[Node]) -> Iterator[NodeKey]:
    return (NodeKey(n.metadata.name) for n in nodes)


def _facts(node: Node) -> tuple[object, ...]:
    """Return what of a node matters here: heartbeats and our own labels do not."""
    own = (READY_PREFIX, SNAPSHOT_PREFIX)
    labels = {k: v for k, v in node.metadata.labels.items() if not k.startswith(own)}
    return node.metadata.uid, labels, node.ready, node.metadata.deletion_timestamp


def _use(pod: Pod) -> tuple[object, ...]:
    """Return what of a pod says which snapshots are in use where."""
    return pod.spec.node_name, pod.status.phase in TERMINAL
