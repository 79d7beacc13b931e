"""Node groups: their members, and the limits of a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from controller.placement.selectors import Labels, matches_affinity, matches_labels
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, ModelCacheNodeGroup
from shared.quantity import parse_quantity

MAX_INT64 = 2**63 - 1  # limit of an API object: 100E bytes is a valid quantity, but would be rejected in a ModelNode
_number = lru_cache(maxsize=1024)(parse_quantity)  # the same few texts for thousands of nodes


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits of one node, in bytes and bytes per second (0: no limit); `evicts`: unused models may make room."""

    storage_bytes: int
    bandwidth_bytes_s: int
    evicts: bool = False


def is_member(group: ModelCacheNodeGroup, name: str, labels: Labels) -> bool:
    """Return whether a node belongs to the group; a group without selector and affinity takes every node."""
    spec = group.spec
    return matches_labels(spec.node_selector, labels) and matches_affinity(spec.node_affinity, name, labels)


def groups_of(groups: Iterable[ModelCacheNodeGroup], name: str, labels: Labels) -> list[ModelCacheNodeGroup]:
    """Return a node's groups, sorted by name; a group being deleted still counts until it is gone."""
    return sorted((g for g in groups if is_member(g, name, labels)), key=lambda g: g.metadata.name)


def limits_of(groups: Sequence[ModelCacheNodeGroup], default: NodeLimits) -> NodeLimits:
    """Return the smallest limits across a node's groups, or the default for a node in none."""
    if not groups:
        return default
    rates = [_number(g.spec.bandwidth_limit) for g in groups if g.spec.bandwidth_limit is not None]
    return NodeLimits(
        storage_bytes=min(MAX_INT64, *(_number(g.spec.storage_limit) for g in groups)),
        bandwidth_bytes_s=min((min(rate, MAX_INT64) for rate in rates if rate > 0), default=0),
        evicts=may_evict(groups),
    )


def may_evict(groups: Sequence[ModelCacheNodeGroup]) -> bool:
    """Return whether models may be evicted from a node: it is in a group, and all its groups allow it."""
    return bool(groups) and all(g.spec.eviction_policy == LEAST_RECENTLY_USED for g in groups)
