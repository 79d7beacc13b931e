"""What to tell of a node group. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from controller.placement.groups import MAX_INT64
from shared.api.meta import Condition, condition_of
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupStatus
from shared.quantity import parse_quantity

_MAX_NODES = 100
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Member:
    """One node of a group: what its agent says it uses, and the other groups that it is in."""

    name: str
    used_bytes: int
    other_groups: tuple[str, ...]


def decide_status(
    group: ModelCacheNodeGroup, members: Sequence[Member], limit_of: dict[str, int], stamp: str
) -> ModelCacheNodeGroupStatus:
    """Return the status; `limit_of` has the limit in force on each member, the smallest of its groups."""
    used = sum(max(0, m.used_bytes) for m in members)
    available = sum(max(0, limit_of.get(m.name, _own_limit(group)) - max(0, m.used_bytes)) for m in members)
    return msgspec.structs.replace(
        group.status,
        conditions=[_overlapping(group, members, stamp)],
        observed_generation=group.metadata.generation,
        node_count=len(members),
        nodes=[m.name for m in members][:_MAX_NODES],
        used=min(used, MAX_INT64),
        available=min(available, MAX_INT64),
    )


def _own_limit(group: ModelCacheNodeGroup) -> int:
    return parse_quantity(group.spec.storage_limit)


def _overlapping(group: ModelCacheNodeGroup, members: Sequence[Member], stamp: str) -> Condition:
    shared = [m for m in members if m.other_groups]
    status = "True" if shared else "False"
    before = condition_of(group.status.conditions, "Overlapping")
    return Condition(
        type="Overlapping",
        status=status,
        reason="Overlapping" if shared else "Separate",
        message=_words(shared) if shared else "no node is in another group as well",
        last_transition_time=before.last_transition_time if before and before.status == status else stamp,
        observed_generation=group.metadata.generation,
    )


def _words(shared: Sequence[Member]) -> str:
    shown = "; ".join(f"{m.name} is also in {', '.join(m.other_groups)}" for m in shared[:_SHOWN])
    more = f"; and {len(shared) - _SHOWN} more nodes" if len(shared) > _SHOWN else ""
    return f"{shown}{more}; such a node has the smallest limit of its groups"
