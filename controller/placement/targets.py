"""The target nodes of a model."""

from collections.abc import Container

from controller.placement.demand import Demand
from controller.placement.selectors import Labels, matches_affinity, matches_labels


def is_target(demand: Demand, member_of: Container[str], name: str, labels: Labels) -> bool:
    """Return whether a node in these groups should hold the model: selected, and in any of the model's groups."""
    if not demand.placeable:
        return False
    if demand.groups and not any(group in member_of for group in demand.groups):
        return False
    return matches_labels(demand.node_selector, labels) and matches_affinity(demand.node_affinity, name, labels)
