"""What one node would evict, computed by the controller's own function. No input or output, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controller.placement.eviction import (
    Candidate,
    Need,
    in_order,
    needs,
    plan_eviction,
    room_bytes,
    status_word,
    weigh,
)
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED
from shared.api.model_node import Entry, EntryState, EntryStatus, ModelNode, Phase
from shared.quantity import format_bytes

Users = Mapping[tuple[str, str], Sequence[str]]
_ANYBODY = ("", "")


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """What to make room for: a model by its id, a number of bytes at a priority, or whatever lacks room now."""

    model: str = ""
    need_bytes: int | None = None
    priority: int = 0
    idle_s: float = 3600


@dataclass(frozen=True, slots=True)
class Row:
    """One model of the node; `verdict` is its position (`goes 1`), `may go`, or why it stays."""

    model: str
    revision: str
    frees: str
    priority: str
    idle_since: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Preview:
    """One node: lines with the question and its outcome, and one row per model."""

    node: str
    lines: tuple[str, ...]
    rows: tuple[Row, ...] = ()


def preview(node: ModelNode, users: Users, asked: SpaceRequest, now: datetime) -> Preview:
    """Return what would happen on a node; `users` are the pods on it by entry."""
    statuses = {s.key: s for s in node.status.entries} if node.status.node_uid == node.spec.node_uid else {}
    need, words = _need(node, statuses, asked)
    lines = [_policy(node), words]
    if need is None:
        return Preview(node.metadata.name, tuple(lines))
    found = [weigh(e, statuses.get(e.key), users.get(e.key, ()), need, now, asked.idle_s) for e in _others(node, need)]
    plan = plan_eviction(need.shortage_bytes, found)
    if need.shortage_bytes > 0:
        enough = "enough" if plan.victims else "not enough, so nothing goes"
        lines.append(f"{format_bytes(plan.evictable_bytes)} may go in all: {enough}")
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
        return f"{space}; idle models make room by themselves when another needs it"
    return f"{space}; nothing is evicted here: evictionPolicy is Never, or the node is in no group. If it were allowed:"


def _need(
    node: ModelNode, statuses: Mapping[tuple[str, str], EntryStatus], asked: SpaceRequest
) -> tuple[Need | None, str]:
    if asked.model:
        return _need_of_model(node, statuses, asked.model)
    if asked.need_bytes is not None:
        return _need_of_bytes(node, asked.need_bytes, asked.priority)
    lacking = [n for n in needs(node.spec.entries, statuses, node.spec.storage_limit) if n.shortage_bytes > 0]
    if lacking:
        return lacking[0], f"{lacking[0].key[0]} lacks {format_bytes(lacking[0].shortage_bytes)}"
    return Need(_ANYBODY, asked.priority, 0), f"nothing lacks room; the order for a model of priority {asked.priority}:"


def _need_of_model(
    node: ModelNode, statuses: Mapping[tuple[str, str], EntryStatus], model: str
) -> tuple[Need | None, str]:
    entry = next(
        (e for e in node.spec.entries if e.id == model and statuses.get(e.key, _SILENT).phase != Phase.READY), None
    )
    if entry is None:
        return None, f"{model} is here" if is_listed(node, model) else f"{model} is not wanted on this node"
    reported = statuses.get(entry.key, _SILENT).shortage
    if reported:
        return Need(entry.key, entry.priority, reported), f"{model} lacks {format_bytes(reported)}"
    need, words = _need_of_bytes(node, entry.size, entry.priority, but=entry)
    return replace(need, key=entry.key), f"{model} ({status_word(entry, statuses.get(entry.key))}): {words}"


def _need_of_bytes(node: ModelNode, size: int, priority: int, but: Entry | None = None) -> tuple[Need, str]:
    others = [e for e in node.spec.entries if e is not but or e.state != EntryState.PRESENT]
    room = room_bytes(others, node.status, node.spec.storage_limit)
    need = Need(_ANYBODY, priority, max(0, size - room))
    return need, f"{format_bytes(size)} are needed, {format_bytes(max(0, room))} are free"


def _rows(found: Sequence[Candidate], victims: Sequence[tuple[str, str]]) -> tuple[Row, ...]:
    able = in_order(found)
    rest = sorted((c for c in found if c.stays), key=lambda c: c.entry.key)
    return tuple(_row(c, victims) for c in (*able, *rest))


def _row(found: Candidate, victims: Sequence[tuple[str, str]]) -> Row:
    entry = found.entry
    verdict = f"stays: {found.stays}" if found.stays else "may go"
    if entry.key in victims:
        verdict = f"goes {victims.index(entry.key) + 1}"
    return Row(
        entry.id, entry.revision[:12], format_bytes(found.frees_bytes), str(entry.priority), found.idle_since, verdict
    )


_SILENT = EntryStatus(id="", revision="")
