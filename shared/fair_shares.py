"""How namespaces share what is limited: each may use as much as it leaves free. No input or output."""

MAX_UPDATING = 8  # models of one namespace beyond its share, while they are updated
# cluster-scoped models may use four times what they leave free, a namespace only as much as it leaves free
_CLUSTER_WEIGHT = 4


def weight_of(namespace: str) -> int:
    """Return how many times what it leaves free a namespace may use; the empty one is that of cluster-scoped models.

    So a single namespace gets half, two get a third each, and there is always something left for the next one.
    """
    return 1 if namespace else _CLUSTER_WEIGHT


def is_fair(namespace: str, used: int, free: int) -> bool:
    """Return whether a namespace may use this much, if that leaves `free` for everyone."""
    return used <= weight_of(namespace) * free
