"""What one node would evict, computed by the controller's own function. No input or output, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controller.placement.eviction import (
    Candidate,
    Need,
    assess,
    available_bytes,
    eviction_order,
    needs,
    plan_eviction,
    state_or_phase,
)
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED
from shared.api.model_node import Entry, EntryState, EntryStatus, ModelNode, Phase
from shared.quantity import format_bytes

Users = Mapping[tuple[str, str], Sequence[str]]
_NO_ENTRY = ("", "")


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """What to make room for: a model by its id, a number of bytes at a priority, or whatever lacks room now."""

    model: str = ""
    need_bytes: int | None = None
    priority: int = 0
    idle_s: float = 3600


@dataclass(frozen=True, slots=True)
class Row:
    """One model of the node; `result` is its position (`evict #1`), `evictable`, or why it is kept."""

    model: str
    revision: str
    frees: str
    priority: str
    idle_since: str
    result: str


@dataclass(frozen=True, slots=True)
class Preview:
    """One node: lines with the question and its outcome, and one row per model."""

    node: str
    lines: tuple[str, ...]
    rows: tuple[Row, ...] = ()


def preview(node: ModelNode, users: Users, request: SpaceRequest, now: datetime) -> Preview:
    """Return what would happen on a node; `users` are the pods on it by entry."""
    statuses = {s.key: s for s in node.status.entries} if node.status.node_uid == node.spec.node_uid else {}
    need, message = _need(node, statuses, request)
    lines = [_policy(node), message]
    if need is None:
        return Preview(node.metadata.name, tuple(lines))
    found = [
        assess(e, statuses.get(e.key), users.get(e.key, ()), need, now, request.idle_s) for e in _others(node, need)
    ]
    plan = plan_eviction(need.shortage_bytes, found)
    if need.shortage_bytes > 0:
        enough = "enough" if plan.victims else "not enough, so nothing is evicted"
        lines.append(f"{format_bytes(plan.evictable_bytes)} can be evicted in total: {enough}")
    return Preview(node.metadata.name, tuple(lines), _rows(found, [c.entry.key for c in plan.victims]))


def is_listed(node: ModelNode, model: str) -> bool:
    """Return whether a node has, or should have, the model with this id."""
    return any(entry.id == model for entry in node.spec.entries)


def _others(node: ModelNode, need: Need) -> list[Entry]:
    return [e for e in node.spec.entries if e.key != need.key]


def _policy(node: ModelNode) -> str:
    limit = format_bytes(node.spec.storage_limit) if node.spec.storage_limit else "none"
    space = f"limit {limit}, used {format_bytes(node.status.used)}, disk free {format_bytes(node.status.disk_free)}"
    if node.spec.eviction_policy == LEAST_RECENTLY_USED:
        return f"{space}; idle models are evicted when another model needs room"
    why_not = "nothing is evicted here, because evictionPolicy is Never or the node is in no group"
    return f"{space}; {why_not}. If eviction were allowed:"


def _need(
    node: ModelNode, statuses: Mapping[tuple[str, str], EntryStatus], request: SpaceRequest
) -> tuple[Need | None, str]:
    if request.model:
        return _need_of_model(node, statuses, request.model)
    if request.need_bytes is not None:
        return _need_of_bytes(node, request.need_bytes, request.priority)
    short = [n for n in needs(node.spec.entries, statuses, node.spec.storage_limit) if n.shortage_bytes > 0]
    if short:
        return short[0], f"{short[0].key[0]} lacks {format_bytes(short[0].shortage_bytes)}"
    return Need(
        _NO_ENTRY, request.priority, 0
    ), f"no model lacks room; the order for a model of priority {request.priority}:"


def _need_of_model(
    node: ModelNode, statuses: Mapping[tuple[str, str], EntryStatus], model: str
) -> tuple[Need | None, str]:
    entry = next(
        (e for e in node.spec.entries if e.id == model and statuses.get(e.key, _NO_STATUS).phase != Phase.READY), None
    )
    if entry is None:
        return None, f"{model} is on this node" if is_listed(node, model) else f"{model} should not be on this node"
    reported = statuses.get(entry.key, _NO_STATUS).shortage
    if reported:
        return Need(entry.key, entry.priority, reported), f"{model} lacks {format_bytes(reported)}"
    need, message = _need_of_bytes(node, entry.size, entry.priority, exclude=entry)
    return replace(need, key=entry.key), f"{model} ({state_or_phase(entry, statuses.get(entry.key))}): {message}"


def _need_of_bytes(node: ModelNode, size: int, priority: int, exclude: Entry | None = None) -> tuple[Need, str]:
    others = [e for e in node.spec.entries if e is not exclude or e.state != EntryState.PRESENT]
    free_bytes = available_bytes(others, node.status, node.spec.storage_limit)
    need = Need(_NO_ENTRY, priority, max(0, size - free_bytes))
    return need, f"{format_bytes(size)} needed, {format_bytes(max(0, free_bytes))} free"


def _rows(found: Sequence[Candidate], victims: Sequence[tuple[str, str]]) -> tuple[Row, ...]:
    evictable = eviction_order(found)
    rest = sorted((c for c in found if c.block_reason), key=lambda c: c.entry.key)
    return tuple(_row(c, victims) for c in (*evictable, *rest))


def _row(found: Candidate, victims: Sequence[tuple[str, str]]) -> Row:
    entry = found.entry
    result = f"keep: {found.block_reason}" if found.block_reason else "evictable"
    if entry.key in victims:
        result = f"evict #{victims.index(entry.key) + 1}"
    return Row(
        entry.id, entry.revision[:12], format_bytes(found.frees_bytes), str(entry.priority), found.idle_since, result
    )


_NO_STATUS = EntryStatus(id="", revision="")
