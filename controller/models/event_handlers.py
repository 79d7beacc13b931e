"""Maps changes to the models to reconcile."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.placement.demand import Demand
from controller.placement.demand_of_kind import Declared
from controller.state.changes import ModelNodeChange
from controller.state.cluster_state import ClusterState
from controller.state.keys import EntryKey, ModelKey
from controller.state.models.service_references import refers_to
from shared.api.core import Node, Pod
from shared.api.inference_service import InferenceService
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import EntryState
from shared.names import uses_label


@dataclass(frozen=True, slots=True)
class ModelEventHandler:
    """Yields the keys of the models to reconcile; None means that the object does not exist."""

    cluster: ClusterState

    def of_model(self, key: ModelKey, before: Demand | None, after: Demand | None) -> Iterator[ModelKey]:
        """Yield the model, and its rivals for an id if its demand changed."""
        yield key
        if before != after:
            known = (demand for demand in (before, after) if demand is not None)
            yield from (rival for d in known for rival in self.cluster.models.keys_of_id(d.id) if rival != key)

    def of_unmanaged(self, key: ModelKey, _before: Declared | None, after: Declared | None) -> Iterator[ModelKey]:
        """Yield a model that Larder does not manage, so that its finalizer is removed."""
        if after is not None:
            yield key

    def of_node(self, before: Node | None, after: Node | None) -> Iterator[ModelKey]:
        """Yield the models that a node affects: those that target it, and those being deleted."""
        return (key for node in (before, after) if node is not None for key in self._at(node))

    def of_agent(self, name: str) -> Iterator[ModelKey]:
        """Yield the same models if the node's agent became ready or went away."""
        node = self.cluster.node(name)
        return self._at(node) if node is not None else iter(())

    def of_model_node(self, change: ModelNodeChange) -> Iterator[ModelKey]:
        """Yield the models whose entry or status changed; a deleted model waits for its last entry to go."""
        yield from (
            key for identity in change.statuses | change.entries for key in self.cluster.models.keys_of_id(identity)
        )
        node = self.cluster.node(change.name)
        if node is not None and change.created_or_deleted:
            yield from self._at(node)  # a ModelNode that is not ours may have come or gone

    def of_group(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> Iterator[ModelKey]:
        """Yield the models that name a group."""
        for group in (before, after):
            if group is not None:
                yield from (key for key, d in self.cluster.models.demands.items() if group.metadata.name in d.groups)

    def of_model_pod(self, before: Pod | None, after: Pod | None) -> Iterator[ModelKey]:
        """Yield the models being deleted that a pod uses: it may be their last user."""
        used = {label for pod in (before, after) if pod is not None for label in pod.metadata.labels}
        return (key for key, demand in self._being_deleted() if uses_label(demand.id) in used)

    def of_inference_service(
        self, before: InferenceService | None, after: InferenceService | None
    ) -> Iterator[ModelKey]:
        """Yield the models being deleted that a service names or named: it may be their last user."""
        known = [service for service in (before, after) if service is not None]
        return (key for key, d in self._being_deleted() if any(refers_to(service, d) for service in known))

    def of_unplaced(self, identity: str) -> Iterator[ModelKey]:
        """Yield the models of an id that gained or lost its place on a node."""
        return iter(self.cluster.models.keys_of_id(identity))

    def of_progress(self, _node: str, entry: EntryKey) -> Iterator[ModelKey]:
        """Yield the models of an entry whose download made visible progress."""
        return iter(self.cluster.models.keys_of_id(entry[0]))

    def _at(self, node: Node) -> Iterator[ModelKey]:
        """Yield the models that target the node, those being deleted, which may wait for it, and those leaving it."""
        for key, demand in self.cluster.models.demands.items():
            if demand.deleting or self.cluster.is_target(demand, node):
                yield key
        model_node = self.cluster.model_node(node.metadata.name)
        for entry in model_node.spec.entries if model_node else ():
            if entry.state != EntryState.PRESENT:
                yield from self.cluster.models.keys_of_id(entry.id)

    def _being_deleted(self) -> Iterator[tuple[ModelKey, Demand]]:
        """Yield the models being deleted: each may be waiting for its last user."""
        return ((key, demand) for key, demand in self.cluster.models.demands.items() if demand.deleting)
