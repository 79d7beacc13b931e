"""The status of a node group. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from controller.manager.conditions import ConditionUpdate, with_conditions
from controller.placement.groups import MAX_INT64
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupStatus
from shared.quantity import format_bytes, parse_quantity

_MAX_NODES = 100
_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One node of a group: its usage as reported by its agent, and the other groups it belongs to."""

    name: str
    used_bytes: int
    other_groups: tuple[str, ...]


def decide_status(
    group: ModelCacheNodeGroup, members: Sequence[GroupMember], limit_of: dict[str, int], stamp: str
) -> ModelCacheNodeGroupStatus:
    """Return the group's status; `limit_of` holds the limit in force on each member, the smallest of its groups."""
    used = sum(max(0, m.used_bytes) for m in members)
    available = sum(max(0, limit_of.get(m.name, _own_limit(group)) - max(0, m.used_bytes)) for m in members)
    return msgspec.structs.replace(
        group.status,
        conditions=with_conditions(
            group.status.conditions, [_ready(members), _overlapping(members)], stamp, group.metadata.generation
        ),
        observed_generation=group.metadata.generation,
        node_count=len(members),
        nodes=[m.name for m in members][:_MAX_NODES],
        used=min(used, MAX_INT64),
        available=min(available, MAX_INT64),
        printed_limit=_printed_limit(group),
        printed_used=format_bytes(used),
        printed_available=format_bytes(available),
    )


def _printed_limit(group: ModelCacheNodeGroup) -> str:
    """Return the limit as the user wrote it, if that has a unit."""
    written = str(group.spec.storage_limit)
    return format_bytes(_own_limit(group)) if written.isdecimal() else written


def _own_limit(group: ModelCacheNodeGroup) -> int:
    return parse_quantity(group.spec.storage_limit)


def _ready(members: Sequence[GroupMember]) -> ConditionUpdate:
    """Return the Ready condition; a group without nodes is Ready, and takes effect with its first matching node."""
    if not members:
        return ConditionUpdate("Ready", "True", "NoNodes", "no node matches yet; the first matching node joins at once")
    return ConditionUpdate("Ready", "True", "HasNodes", f"nodes in the group: {len(members)}")


def _overlapping(members: Sequence[GroupMember]) -> ConditionUpdate:
    shared = [m for m in members if m.other_groups]
    if not shared:
        return ConditionUpdate("Overlapping", "False", "Separate", "no node is in another group")
    return ConditionUpdate("Overlapping", "True", "Overlapping", _overlap_message(shared))


def _overlap_message(shared: Sequence[GroupMember]) -> str:
    shown = "; ".join(f"{m.name} is also in {', '.join(m.other_groups)}" for m in shared[:_MAX_SHOWN])
    more = f"; and {len(shared) - _MAX_SHOWN} more nodes" if len(shared) > _MAX_SHOWN else ""
    return f"{shown}{more}; the smallest limit of its groups applies to each"
