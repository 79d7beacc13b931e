"""The nodes of a model."""

from collections.abc import Container

from controller.placement.demand import Demand
from controller.placement.selectors import Labels, matches_affinity, matches_labels


def is_target(demand: Demand, member_of: Container[str], name: str, labels: Labels) -> bool:
    """Return whether the node, a member of these groups, shall hold the model: in any of its groups, and selected."""
    if not demand.stocked:
        return False
    if demand.groups and not any(group in member_of for group in demand.groups):
        return False
    return matches_labels(demand.node_selector, labels) and matches_affinity(demand.node_affinity, name, labels)
