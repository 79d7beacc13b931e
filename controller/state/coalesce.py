"""Delays that coalesce many changes into one reconcile of a key."""

from collections.abc import Callable

from controller.state.cluster_state import ClusterState

_S_PER_NODE = 0.0005
_S_PER_MODEL = 0.0005
_LONGEST_S = 2.0


def by_nodes(cluster: ClusterState) -> Callable[[], float]:
    """Return the delay in seconds for keys that every node can trigger."""
    return lambda: min(len(cluster.nodes) * _S_PER_NODE, _LONGEST_S)


def by_models(cluster: ClusterState) -> Callable[[], float]:
    """Return the delay for nodes, which every model triggers: each reconcile scans all models and may write."""
    return lambda: min(len(cluster.demands) * _S_PER_MODEL, _LONGEST_S)
