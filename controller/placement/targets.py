"""The nodes of a model."""

from collections.abc import Mapping

from controller.placement.demand import Demand
from controller.placement.groups import is_member
from controller.placement.selectors import Labels, matches_affinity, matches_labels
from shared.api.model_cache_node_group import ModelCacheNodeGroup


def is_target(demand: Demand, groups: Mapping[str, ModelCacheNodeGroup], name: str, labels: Labels) -> bool:
    """Return whether the node shall hold the model: in any of its groups, and allowed by its own selector."""
    if not demand.stocked:
        return False
    if demand.groups and not any(g in groups and is_member(groups[g], name, labels) for g in demand.groups):
        return False
    return matches_labels(demand.node_selector, labels) and matches_affinity(demand.node_affinity, name, labels)
