"""How long a key waits where many objects can wake it together: one turn will do for all of them."""

from collections.abc import Callable

from controller.state.cluster_state import ClusterState

_S_PER_NODE = 0.0005
_S_PER_MODEL = 0.0005
_LONGEST_S = 2.0


def by_nodes(cluster: ClusterState) -> Callable[[], float]:
    """Return the wait for what every node can wake, in seconds."""
    return lambda: min(len(cluster.nodes) * _S_PER_NODE, _LONGEST_S)


def by_models(cluster: ClusterState) -> Callable[[], float]:
    """Return the wait for nodes, which every model can wake: a look at a node is a look at every model, and a write."""
    return lambda: min(len(cluster.demands) * _S_PER_MODEL, _LONGEST_S)
