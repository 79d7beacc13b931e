"""Metrics of nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.state.cluster_state import ClusterState

_AGENT_READY, _AGENT_AWAY, _NOT_READY = "AgentReady", "AgentAway", "NotReady"


def node_gauges(cluster: ClusterState) -> Iterator[Metric]:
    """Yield the number of nodes by state."""
    family = GaugeMetricFamily("larder_nodes", "Nodes with a ModelNode, by state.", labels=["state"])
    counts = Counter(_states(cluster))
    for state in (_AGENT_READY, _AGENT_AWAY, _NOT_READY):
        family.add_metric([state], counts[state])
    yield family


def _states(cluster: ClusterState) -> Iterable[str]:
    for model_node in cluster.model_nodes:
        node = cluster.node(model_node.metadata.name)
        if node is None or not node.ready:
            yield _NOT_READY
        else:
            yield _AGENT_READY if cluster.liveness.ready(node.metadata.name) else _AGENT_AWAY
