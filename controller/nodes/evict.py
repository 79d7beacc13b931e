"""One turn of the evictions of a node. No input or output, no clock.

A batch of victims becomes Draining together, and Absent together; what is Absent with its mark waits for room.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from controller.nodes.steps import Pace, drains_for_s, is_gone, stamp, told, turned
from controller.nodes.view import NodeView
from controller.placement.eviction import (
    Candidate,
    Need,
    Statuses,
    lacks_room,
    needs,
    plan_eviction,
    returning,
    room_bytes,
    weigh,
)
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState

_SOON_S = 1.0
Entries = Mapping[EntryKey, Entry]


@dataclass(frozen=True, slots=True)
class Turn:
    """What changes, and what has to be known first: the users of the node, or live reads on these entries."""

    changed: dict[EntryKey, Entry] = field(default_factory=dict)
    wants_users: bool = False
    asks: frozenset[EntryKey] = frozenset()
    again_s: float | None = None


def take_turn(view: NodeView, wanted: Entries, leaving_bytes: int, now: datetime, pace: Pace) -> Turn:
    """Return the next step for the entries that objects want on the node, as they shall be but for evictions.

    `leaving_bytes` is what goes anyway, because no object wants it.
    """
    marked, statuses = [e for e in wanted.values() if e.evicted_for], told(view)
    later = {key: before for key, before, _ in _asked_for_anew(view, marked)}  # as it was, so that it is seen then
    if batch := [e for e in marked if e.state == EntryState.DRAINING]:
        turn = _go_on(view, wanted, batch, statuses, leaving_bytes, now, pace)
        return replace(turn, changed=later | turn.changed)
    if any(not is_gone(e, statuses) for e in marked):
        return Turn(later)  # the agent is removing it
    back = {e.key: _called_off(view, e, now) for e in _coming_back(view, wanted, marked)}
    if back or not view.limits.evicts:
        return Turn(back)
    turn = _begin(view, wanted, statuses, leaving_bytes, now, pace)
    turn = replace(turn, changed=_no_more_in_need(wanted, statuses) | turn.changed)
    return replace(turn, again_s=_soonest(turn.again_s, pace.users_s)) if marked else turn


def _begin(view: NodeView, wanted: Entries, statuses: Statuses, leaving_bytes: int, now: datetime, pace: Pace) -> Turn:
    """Choose victims for the first model that can be helped."""
    again_s, changed = None, dict[EntryKey, Entry]()
    for need in needs(wanted.values(), statuses, view.limits.storage_bytes):
        shortage = need.shortage_bytes - leaving_bytes
        if shortage <= 0:
            return Turn(changed)  # it asks anew, or what leaves already will do
        candidates = _candidates(view, wanted, statuses, need, now, pace)
        plan = plan_eviction(shortage, candidates)
        if plan.victims and view.users is None:
            return Turn(wants_users=True)
        if plan.victims:
            return Turn(changed | {c.entry.key: _condemned(c.entry, need, now) for c in plan.victims})
        changed[need.key] = msgspec.structs.replace(wanted[need.key], evictable=plan.evictable_bytes)
        again_s = _soonest(again_s, *(c.due_s for c in candidates), pace.users_s if view.users else None)
    return Turn(changed, again_s=again_s)


def _no_more_in_need(wanted: Entries, statuses: Statuses) -> dict[EntryKey, Entry]:
    """Return the entries for which it was said how much may go, and that need it no more."""
    told = ((e, statuses.get(k)) for k, e in wanted.items() if e.evictable)
    return {e.key: msgspec.structs.replace(e, evictable=0) for e, s in told if s is not None and not lacks_room(e, s)}


def _go_on(
    view: NodeView,
    wanted: Entries,
    batch: list[Entry],
    statuses: Statuses,
    leaving_bytes: int,
    now: datetime,
    pace: Pace,
) -> Turn:
    """Bring a batch on its way, or back where it is not needed, not allowed or not enough any more."""
    need = _need_of(batch, wanted, statuses, view.limits.storage_bytes)
    if need is None or not view.limits.evicts:
        return _back(view, batch, now)
    stays = (view.spared | view.in_use).union(view.users or ())
    going = [e for e in batch if not e.pinned and e.priority <= need.priority and e.key not in stays]
    freed = sum(statuses[e.key].frees for e in going if e.key in statuses) + leaving_bytes
    if not going or freed < need.shortage_bytes:
        return _back(view, batch, now)
    spared = {e.key: _called_off(view, e, now) for e in batch if e not in going}
    waits = [drains_for_s(view, e, now, pace) for e in going]
    if None in waits or need.shortage_bytes <= 0:
        return Turn(spared)
    if (left_s := max(w for w in waits if w is not None)) > 0:
        return Turn(spared, again_s=left_s)
    if view.users is None:
        return Turn(wants_users=True)
    if view.unwanted is None:
        return Turn(asks=frozenset(e.key for e in going))
    if not view.unwanted.issuperset(e.key for e in going):
        return Turn(spared, again_s=_SOON_S)  # the live reads were made before the batch had drained
    return Turn(spared | {e.key: turned(e, EntryState.ABSENT, now) for e in going})


def _need_of(batch: Iterable[Entry], wanted: Entries, statuses: Statuses, limit: int) -> Need | None:
    """Return what the batch makes room for, if that still lacks it."""
    names = {e.evicted_for for e in batch}
    asking = [e for e in wanted.values() if e.id in names and e.key in statuses and lacks_room(e, statuses[e.key])]
    return next(iter(needs(asking, statuses, limit)), None)


def _back(view: NodeView, batch: Iterable[Entry], now: datetime) -> Turn:
    return Turn({e.key: _called_off(view, e, now) for e in batch})


def _called_off(view: NodeView, entry: Entry, now: datetime) -> Entry:
    used = entry.key in view.in_use or bool((view.users or {}).get(entry.key))
    return msgspec.structs.replace(
        entry, state=EntryState.PRESENT, since=stamp(now), evicted_for="", granted=view.granted, in_use=used
    )


def _condemned(entry: Entry, need: Need, now: datetime) -> Entry:
    return msgspec.structs.replace(turned(entry, EntryState.DRAINING, now), evicted_for=need.key[0])


def _candidates(
    view: NodeView, wanted: Entries, statuses: Statuses, need: Need, now: datetime, pace: Pace
) -> list[Candidate]:
    users = view.users or {}
    return [weigh(e, statuses.get(k), users.get(k, ()), need, now, pace.idle_s) for k, e in wanted.items()]


def _coming_back(view: NodeView, wanted: Entries, evicted: Collection[Entry]) -> list[Entry]:
    """Return the evicted entries that are to be fetched again."""
    if not view.limits.evicts or view.model_node is None:
        return list(evicted)
    if asked := [after for _, _, after in _asked_for_anew(view, evicted)]:
        return asked
    others = [e for e in wanted.values() if e.state == EntryState.PRESENT]
    room = room_bytes(wanted.values(), view.model_node.status, view.limits.storage_bytes)
    return returning(evicted, room, alone=not others)


def _asked_for_anew(view: NodeView, evicted: Iterable[Entry]) -> list[tuple[EntryKey, Entry, Entry]]:
    """Return the evicted models that are asked for anew, as they stand and as they are wanted."""
    before = {e.key: e for e in view.model_node.spec.entries} if view.model_node else {}
    gone = ((e.key, before.get(e.key, e), e) for e in evicted if e.state == EntryState.ABSENT)
    return [found for found in gone if _is_asked_for_anew(*found[1:])]


def _is_asked_for_anew(before: Entry, after: Entry) -> bool:
    claimed = {c.uid for c in after.claims} - {c.uid for c in before.claims}
    return after.priority > before.priority or (after.pinned and not before.pinned) or bool(claimed)


def _soonest(*waits_s: float | None) -> float | None:
    return min((w for w in waits_s if w is not None), default=None)
