"""Maps changes to the nodes to reconcile."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controller.nodes.keys import NodeKey
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import Declared
from controller.placement.groups import is_member
from controller.state.changes import ModelNodeChange
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.core import Node, Pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.kube.objects import Key


@dataclass(frozen=True, slots=True)
class NodeEventHandler:
    """Yields the keys of the nodes to reconcile; None means that the object does not exist."""

    cluster: ClusterState

    def of_node(self, before: Node | None, after: Node | None) -> Iterator[NodeKey]:
        """Yield the node."""
        return _keys(node for node in (before, after) if node is not None)

    def of_model_node(self, change: ModelNodeChange) -> Iterator[NodeKey]:
        """Yield its node, unless only numbers changed."""
        if change.spec_changed or change.statuses:
            yield NodeKey(change.name)

    def of_agent(self, name: str) -> Iterator[NodeKey]:
        """Yield the node whose agent became ready or went away."""
        if self.cluster.node(name) is not None:
            yield NodeKey(name)

    def of_group(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> Iterator[NodeKey]:
        """Yield the current and the former members of a group."""
        for group in (before, after):
            if group is not None:
                yield from _keys(n for n in self.cluster.nodes if is_member(group, n.metadata.name, n.metadata.labels))

    def of_model(self, key: ModelKey, before: Demand | None, after: Demand | None) -> Iterator[NodeKey]:
        """Yield the model's targets, the nodes that list it and its rivals' targets, but only if its demand changed."""
        if before == after:
            return
        for demand in (d for d in (before, after) if d is not None):
            yield from _keys(self.cluster.targets_of(demand))
            yield from (NodeKey(name) for name in self.cluster.listed.nodes_of_owner(demand.uid))
            for rival in self.cluster.models.keys_of_id(demand.id):
                if rival != key:
                    yield from _keys(self.cluster.targets_of(self.cluster.models.demands[rival]))

    def of_unmanaged(self, _key: ModelKey, before: Declared | None, after: Declared | None) -> Iterator[NodeKey]:
        """Yield the nodes that kept files for a deleted model of another product's kind."""
        if before is not None and after is None:
            yield from (NodeKey(name) for name in self.cluster.listed.nodes_of_owner(before.metadata.uid))

    def of_model_pod(self, before: Pod | None, after: Pod | None) -> Iterator[NodeKey]:
        """Yield the node of a pod that uses models."""
        pods = (pod for pod in (before, after) if pod is not None)
        return (NodeKey(pod.spec.node_name) for pod in pods if pod.spec.node_name)

    def of_claim(self, claim: Key) -> Iterator[NodeKey]:
        """Yield the nodes of the pods that mount a claim, because only its volume says which files they wait for."""
        pods = (self.cluster.model_pods.get(key) for key in self.cluster.volumes.pods_of(claim))
        return (NodeKey(pod.spec.node_name) for pod in pods if pod is not None and pod.spec.node_name)

    def of_resource_claim_node(self, node_name: str) -> Iterator[NodeKey]:
        """Yield the node on which a ResourceClaim holds a model, or held one."""
        yield NodeKey(node_name)

    def of_grant(self, node_name: str) -> Iterator[NodeKey]:
        """Yield a node that gained or lost its download grant."""
        yield NodeKey(node_name)


def _keys(nodes: Iterable[Node]) -> Iterator[NodeKey]:
    return (NodeKey(n.metadata.name) for n in nodes)
