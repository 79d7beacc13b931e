"""Maps changes to the pods that wait and may be affected."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.placement.demand import Demand
from controller.placement.pod_placement import promised_snapshots
from controller.state.changes import ModelNodeChange
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.waiting_pods.keys import WaitingKey, waiting_key
from shared.api.core import Node


@dataclass(frozen=True, slots=True)
class WaitingPodsEventHandler:
    """Yields the keys to reconcile; None means that the object does not exist."""

    cluster: ClusterState

    def of_snapshot_labels(self, labels: frozenset[str]) -> Iterator[WaitingKey]:
        """Yield the pods that wait for the snapshots that a node gained or lost, wherever they are."""
        for label in labels:
            yield from (waiting_key(*use) for use in self.cluster.waiting_pods.uses_of_label(label))

    def of_model_node(self, change: ModelNodeChange) -> Iterator[WaitingKey]:
        """Yield the pods on a node whose models have a new status from its agent, or new entries in its ModelNode."""
        yield from self._on_node(change.name, change.statuses | change.entries)

    def of_node(self, before: Node | None, after: Node | None) -> Iterator[WaitingKey]:
        """Yield the pods that wait on a node."""
        node = after or before
        if node is not None:
            yield from self._on_node(node.metadata.name, None)

    def of_model(self, _: ModelKey, before: Demand | None, after: Demand | None) -> Iterator[WaitingKey]:
        """Yield the pods that wait for any revision of a model."""
        for identity in {demand.id for demand in (before, after) if demand is not None}:
            yield from (waiting_key(*use) for use in self.cluster.waiting_pods.uses_of_id(identity))

    def _on_node(self, name: str, ids: frozenset[str] | None) -> Iterator[WaitingKey]:
        for pod in self.cluster.pod_users.pods_on(name):
            namespace = pod.metadata.namespace
            for snapshot in promised_snapshots(namespace, pod.metadata.annotations):
                if (ids is None or snapshot[0] in ids) and self.cluster.waiting_pods.pods_for(namespace, snapshot):
                    yield waiting_key(namespace, snapshot)
