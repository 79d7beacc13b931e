"""How namespaces share what is limited: each may use as much as it leaves free. No input or output."""

# cluster-scoped models may use four times what they leave free, a namespace only as much as it leaves free
CLUSTER_WEIGHT = 4


def weight_of(namespace: str) -> int:
    """Return how many times what it leaves free a namespace may use; the empty one is that of cluster-scoped models.

    So a single namespace gets half, two get a third each, and there is always something left for the next one.
    """
    return 1 if namespace else CLUSTER_WEIGHT
