"""Metrics of nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.state.cluster_state import ClusterState
from shared.api.model_node import EntryState

_AGENT_READY, _AGENT_AWAY, _AGENT_NOT_NEEDED, _NOT_READY = "AgentReady", "AgentAway", "AgentNotNeeded", "NotReady"


def node_gauges(cluster: ClusterState) -> Iterator[Metric]:
    """Yield the number of nodes by state."""
    family = GaugeMetricFamily("larder_nodes", "Nodes with a ModelNode, by state.", labels=["state"])
    counts = Counter(_states(cluster))
    for state in (_AGENT_READY, _AGENT_AWAY, _AGENT_NOT_NEEDED, _NOT_READY):
        family.add_metric([state], counts[state])
    yield family


def _states(cluster: ClusterState) -> Iterable[str]:
    for model_node in cluster.model_nodes:
        node = cluster.node(model_node.metadata.name)
        if node is None or not node.ready:
            yield _NOT_READY
        elif cluster.liveness.ready(node.metadata.name):
            yield _AGENT_READY
        else:  # not every node has to run an agent
            wants_models = any(entry.state == EntryState.PRESENT for entry in model_node.spec.entries)
            yield _AGENT_AWAY if wants_models else _AGENT_NOT_NEEDED
