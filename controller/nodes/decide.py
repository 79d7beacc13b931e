"""From a view of a node to the ModelNode it shall have. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec

from controller.manager.actions import Again
from controller.nodes.evict import Turn, take_turn
from controller.nodes.steps import Pace, drains_for_s, is_drained, is_gone, stamp, told, turned
from controller.nodes.view import NodeView, is_of_another_node, why_not_ours
from controller.placement.demand import Demand
from controller.placement.shares import Room, share_room
from controller.state.keys import EntryKey
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, NEVER
from shared.api.model_node import Claim, Entry, EntryState, EntryStatus, ModelNodeSpec, Phase

_AT_ONE_TIME = 100


@dataclass(frozen=True, slots=True)
class Replace:
    """The ModelNode belongs to a Node that is gone; another of the same name took its place."""


@dataclass(frozen=True, slots=True)
class Create:
    """There is none yet."""

    spec: ModelNodeSpec


@dataclass(frozen=True, slots=True)
class Write:
    """Its spec shall change."""

    spec: ModelNodeSpec


@dataclass(frozen=True, slots=True)
class ListUsers:
    """A removal depends on the pods of the node: list them live, and decide again."""


@dataclass(frozen=True, slots=True)
class ConfirmUnwanted:
    """Files would go, as far as memory knows: read live what the CRs say of them, and decide again."""


Action: TypeAlias = Replace | Create | Write | ListUsers | ConfirmUnwanted | Again


def decide(view: NodeView, now: datetime, pace: Pace) -> list[Action]:
    """Return what to do, in order; nothing when the ModelNode is as it shall be."""
    found = view.model_node
    if found is not None and is_of_another_node(found, view.uid):
        return [] if why_not_ours(found, view.uid) else [Replace()]
    turn = _evictions(view, now, pace)
    if view.users is None and (turn.wants_users or _needs_users(view, now, pace)):
        return [ListUsers()]
    if view.unwanted is None and in_question(view, now, pace):
        return [ConfirmUnwanted()]
    entries = _entries(view, turn, now, pace)
    spec = ModelNodeSpec(
        node_uid=view.uid,
        storage_limit=view.limits.storage_bytes,
        bandwidth_limit=view.limits.bandwidth_bytes_s,
        eviction_policy=LEAST_RECENTLY_USED if view.limits.evicts else NEVER,
        entries=entries,
    )
    waits = (_next_look(view, entries, now, pace), turn.again_s)
    again: list[Action] = [Again(wait) for wait in sorted(w for w in waits if w is not None)[:1]]
    if found is None:
        return [Create(spec)] if view.demands or view.limits.storage_bytes else []
    return ([Write(spec)] if spec != found.spec else []) + again


def crowd_out(view: NodeView, now: datetime, room: Room) -> dict[EntryKey, str]:
    """Return the entries that objects want and the ModelNode has no room for, each with why."""
    old, wanted = _old(view), _wanted(view)
    new = sorted(wanted.keys() - old.keys(), key=lambda key: _turn(wanted[key], key))
    return share_room(old.values(), (_kept(view, None, {}, wanted[key], key, now) for key in new), room)


def _turn(demands: list[Demand], key: EntryKey) -> tuple[int, tuple[str, str], EntryKey]:
    """Order the models of a namespace: the higher priority first, then the older object."""
    return -max(d.priority for d in demands), min(d.age for d in demands), key


def _old(view: NodeView) -> dict[EntryKey, Entry]:
    return {e.key: e for e in view.model_node.spec.entries} if view.model_node else {}


def _evictions(view: NodeView, now: datetime, pace: Pace) -> Turn:
    if not view.limits.evicts and not any(e.evicted_for for e in _old(view).values()):
        return Turn()
    used = view.users or {}
    going = (
        e for e in _leaving(view) if e.state != EntryState.PRESENT or (view.users is not None and e.key not in used)
    )
    frees = {key: status.frees for key, status in told(view).items()}
    leaving = sum(frees.get(e.key, 0) for e in going)
    return take_turn(view, _wanted_entries(view, now), leaving, now, pace)


def _unknown(view: NodeView) -> set[EntryKey]:
    """Return the files that no entry names, but for those of objects that are held."""
    old = _old(view)
    words = {k for k, s in told(view).items() if s.phase == Phase.UNKNOWN and k not in old}
    return {key for key in words if key[0] not in view.held.ids}


def in_question(view: NodeView, now: datetime, pace: Pace) -> frozenset[EntryKey]:
    """Return the entries whose files would go next if live reads confirm that no CR wants them, or lets them go.

    At most `_AT_ONE_TIME`, and of files that no entry names as many as may leave beside what leaves already: an agent
    that reports thousands costs no thousands of reads, and no spec that is too long.
    """
    used, leaving = view.users or {}, _leaving(view)
    drained = sorted(e.key for e in leaving if not used.get(e.key) and is_drained(view, e, now, pace))[:_AT_ONE_TIME]
    room = max(0, _AT_ONE_TIME - len(leaving))
    unknown = sorted(_unknown(view) - _wanted(view).keys())[:room]
    return frozenset(drained + unknown) | _evictions(view, now, pace).asks


def _wanted(view: NodeView) -> dict[EntryKey, list[Demand]]:
    """Return the demands of each entry: the resolved revision, and the serving one where it is still here."""
    here = _old(view).keys() | told(view).keys()
    wanted: dict[EntryKey, list[Demand]] = {}
    for demand in view.demands:
        resolved = demand.resolution.revision if demand.resolution else ""
        if resolved and (demand.id, resolved) not in view.crowded:
            wanted.setdefault((demand.id, resolved), []).append(demand)
        serving = (demand.id, demand.serving)
        if demand.serving not in ("", resolved) and serving in here:
            wanted.setdefault(serving, []).append(demand)
    return wanted


def _needs_users(view: NodeView, now: datetime, pace: Pace) -> bool:
    """Return whether some entry stands at a step that the pods of the node decide."""
    if view.users is not None:
        return False
    leaving = (e.state == EntryState.PRESENT or is_drained(view, e, now, pace) for e in _leaving(view))
    return any(leaving) or bool(view.unwanted)


def _leaving(view: NodeView) -> list[Entry]:
    """Return the entries that nobody wants, reserved or holds."""
    wanted = _wanted(view)
    return [e for k, e in _old(view).items() if k not in wanted and not _stays(view, e)]


def _stays(view: NodeView, entry: Entry) -> bool:
    return _is_reserved(view, entry) or _is_held(view, entry)


def _is_held(view: NodeView, entry: Entry) -> bool:
    """Return whether an object that claims it exists, and Larder has been kept from looking after it."""
    return entry.state != EntryState.ABSENT and any(c.uid in view.held.uids for c in entry.claims)


def _is_reserved(view: NodeView, entry: Entry) -> bool:
    """Return whether the files outlive their CR: it carried the reserve label and exists no more."""
    kept = entry.reserved and entry.state != EntryState.ABSENT
    return kept and not any(c.uid in view.keepers for c in entry.claims)


def _wanted_entries(view: NodeView, now: datetime) -> dict[EntryKey, Entry]:
    """Return the entries that objects want, as they shall be but for evictions."""
    old, statuses = _old(view), told(view)
    return {k: _kept(view, old.get(k), statuses, demands, k, now) for k, demands in _wanted(view).items()}


def _entries(view: NodeView, turn: Turn, now: datetime, pace: Pace) -> list[Entry]:
    old, wanted = _old(view), _wanted_entries(view, now)
    entries = [turn.changed.get(key, entry) for key, entry in wanted.items()]
    entries += [
        entry
        for key, before in old.items()
        if key not in wanted and (entry := _next_step(view, _let_off(view, before, now), now, pace)) is not None
    ]
    entries += [
        Entry(id=key[0], revision=key[1], state=EntryState.DRAINING, since=stamp(now))
        for key in (view.unwanted or frozenset()) - wanted.keys() - old.keys()
        if not (view.users or {}).get(key)
    ]
    return sorted(entries, key=lambda e: e.key)


def _kept(
    view: NodeView,
    before: Entry | None,
    statuses: Mapping[EntryKey, EntryStatus],
    demands: list[Demand],
    key: EntryKey,
    now: datetime,
) -> Entry:
    if before and before.state == EntryState.ABSENT and not is_gone(before, statuses):
        return before  # the agent is removing it; afterwards it is wanted anew
    evicted = before is not None and bool(before.evicted_for)  # `take_turn` says when it is back
    stands = before is not None and (evicted or before.state == EntryState.PRESENT)
    resolution = next((d.resolution for d in demands if d.resolution and d.resolution.revision == key[1]), None)
    fresh = Entry(id=key[0], revision=key[1]) if before is None else before
    return msgspec.structs.replace(
        fresh,
        uri=resolution.uri if resolution else fresh.uri,
        manifest=resolution.manifest if resolution else fresh.manifest,
        size=resolution.size_bytes if resolution else fresh.size,
        priority=max(d.priority for d in demands),
        pinned=any(d.pinned for d in demands),
        reserved=any(d.reserved for d in demands),
        state=fresh.state if evicted else EntryState.PRESENT,
        since=fresh.since if stands and fresh.since else stamp(now),
        granted=view.granted and not evicted,
        in_use=key in view.in_use,
        evictable=fresh.evictable if view.limits.evicts else 0,
        last_used=stamp(now) if fresh.in_use and key not in view.in_use else fresh.last_used,
        claims=[_claim(view, d) for d in sorted(demands, key=lambda d: d.age)],
    )


def _claim(view: NodeView, demand: Demand) -> Claim:
    return Claim(
        kind=demand.kind,
        namespace=demand.namespace,
        name=demand.name,
        uid=demand.uid,
        secret=demand.secret,
        group=view.group_of.get(demand.uid, ""),
        priority=demand.priority,
    )


def _let_off(view: NodeView, entry: Entry, now: datetime) -> Entry:
    """Return an entry as it stands; one that stays makes no room for others."""
    drains = entry.state == EntryState.DRAINING and bool(entry.evicted_for)
    return turned(entry, EntryState.PRESENT, now) if drains and _stays(view, entry) else entry


def _next_step(view: NodeView, before: Entry, now: datetime, pace: Pace) -> Entry | None:
    """Return the next step of an entry that nobody wants: Present, Draining, Absent, gone."""
    if _is_reserved(view, before):
        return msgspec.structs.replace(before, claims=[], in_use=before.key in view.in_use)
    if _is_held(view, before):
        return msgspec.structs.replace(before, granted=view.granted, in_use=before.key in view.in_use)
    used = bool((view.users or {}).get(before.key))
    match before.state:
        case EntryState.PRESENT if used:
            return msgspec.structs.replace(before, in_use=True)
        case EntryState.PRESENT:
            return turned(before, EntryState.DRAINING, now)
        case EntryState.DRAINING if not is_drained(view, before, now, pace):
            return before
        case EntryState.DRAINING if used:
            return turned(before, EntryState.PRESENT, now)
        case EntryState.DRAINING if before.key not in (view.unwanted or ()):
            return before  # memory is behind: it will bring what wants it
        case EntryState.DRAINING:
            return turned(before, EntryState.ABSENT, now)
        case EntryState.ABSENT:
            return None if is_gone(before, told(view)) else before
        case _:  # a newer controller's word: leave it
            return before


def _next_look(view: NodeView, entries: list[Entry], now: datetime, pace: Pace) -> float | None:
    """Return in how many seconds a removal goes on without any event, or None."""
    wanted = _wanted(view)
    leaving = [e for e in entries if e.key not in wanted and not _stays(view, e)]
    waits = [pace.users_s for e in leaving if e.state == EntryState.PRESENT]
    waits += [pace.users_s for key in _unknown(view) - {e.key for e in entries} if (view.users or {}).get(key)]
    for entry in leaving:
        if (left_s := drains_for_s(view, entry, now, pace)) is not None:
            waits.append(left_s if left_s > 0 else pace.users_s)
    return min(waits, default=None)
