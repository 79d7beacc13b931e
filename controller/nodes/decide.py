"""From a view of a node to the ModelNode it shall have. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from controller.nodes.view import EntryKey, NodeView
from controller.placement.demand import Demand
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


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing to do before some time has passed."""

    after_s: float


Action: TypeAlias = Replace | Create | Write | ListUsers | ConfirmUnwanted | Again


@dataclass(frozen=True, slots=True)
class Pace:
    """The waits of a removal, in seconds."""

    drain_s: float = 30
    users_s: float = 30


def decide(view: NodeView, now: datetime, pace: Pace) -> list[Action]:
    """Return what to do, in order; nothing when the ModelNode is as it shall be."""
    found = view.model_node
    if found is not None and found.spec.node_uid not in ("", view.uid):
        return [Replace()]
    if _needs_users(view, now, pace):
        return [ListUsers()]
    if view.unwanted is None and in_question(view, now, pace):
        return [ConfirmUnwanted()]
    entries = _entries(view, now, pace)
    spec = ModelNodeSpec(
        node_uid=view.uid,
        storage_limit=view.limits.storage_bytes,
        bandwidth_limit=view.limits.bandwidth_bytes_s,
        entries=entries,
    )
    again: list[Action] = [Again(wait)] if (wait := _next_look(view, entries, now, pace)) is not None else []
    if found is None:
        return [Create(spec)] if view.demands or view.limits.storage_bytes else []
    return ([Write(spec)] if spec != found.spec else []) + again


def _old(view: NodeView) -> dict[EntryKey, Entry]:
    return {e.key: e for e in view.model_node.spec.entries} if view.model_node else {}


def _status(view: NodeView) -> dict[EntryKey, EntryStatus]:
    """Return the agent's words, unless they are of another node that had this name."""
    if not view.model_node or view.model_node.status.node_uid != view.uid:
        return {}
    return {e.key: e for e in view.model_node.status.entries}


def _unknown(view: NodeView) -> set[EntryKey]:
    """Return the files that no entry names, but for those of objects that are held."""
    old = _old(view)
    told = {k for k, s in _status(view).items() if s.phase == Phase.UNKNOWN and k not in old}
    return {key for key in told if key[0] not in view.held.ids}


def in_question(view: NodeView, now: datetime, pace: Pace) -> frozenset[EntryKey]:
    """Return the entries whose files would go next if live reads confirm that no CR wants them.

    At most `_AT_ONE_TIME`, and of files that no entry names as many as may leave beside what leaves already: an agent
    that reports thousands costs no thousands of reads, and no spec that is too long.
    """
    used, leaving = view.users or {}, _leaving(view)
    drained = sorted(e.key for e in leaving if not used.get(e.key) and _drained(view, e, now, pace))[:_AT_ONE_TIME]
    room = max(0, _AT_ONE_TIME - len(leaving))
    return frozenset(drained + sorted(_unknown(view) - _wanted(view).keys())[:room])


def _wanted(view: NodeView) -> dict[EntryKey, list[Demand]]:
    """Return the demands of each entry: the resolved revision, and the serving one where it is still here."""
    here = _old(view).keys() | _status(view).keys()
    wanted: dict[EntryKey, list[Demand]] = {}
    for demand in view.demands:
        resolved = demand.resolution.revision if demand.resolution else ""
        if resolved:
            wanted.setdefault((demand.id, resolved), []).append(demand)
        serving = (demand.id, demand.serving)
        if demand.serving not in ("", resolved) and serving in here:
            wanted.setdefault(serving, []).append(demand)
    return wanted


def _needs_users(view: NodeView, now: datetime, pace: Pace) -> bool:
    """Return whether some entry stands at a step that the pods of the node decide."""
    if view.users is not None:
        return False
    leaving = (e.state == EntryState.PRESENT or _drained(view, e, now, pace) for e in _leaving(view))
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
    return entry.reserved and not any(c.uid in view.keepers for c in entry.claims)


def _entries(view: NodeView, now: datetime, pace: Pace) -> list[Entry]:
    old, statuses, wanted = _old(view), _status(view), _wanted(view)
    entries = [
        entry
        for key, demands in wanted.items()
        if (entry := _kept(view, old.get(key), statuses.get(key), demands, key, now)) is not None
    ]
    entries += [
        entry
        for key, before in old.items()
        if key not in wanted and (entry := _next_step(view, before, statuses.get(key), now, pace)) is not None
    ]
    entries += [
        Entry(id=key[0], revision=key[1], state=EntryState.DRAINING, since=_stamp(now))
        for key in (view.unwanted or frozenset()) - wanted.keys() - old.keys()
        if not (view.users or {}).get(key)
    ]
    return sorted(entries, key=lambda e: e.key)


def _kept(
    view: NodeView,
    before: Entry | None,
    status: EntryStatus | None,
    demands: list[Demand],
    key: EntryKey,
    now: datetime,
) -> Entry | None:
    if before and before.state == EntryState.ABSENT and not _is_gone(before, status):
        return before  # the agent is removing it; afterwards it is wanted anew
    present = before is not None and before.state == EntryState.PRESENT
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
        state=EntryState.PRESENT,
        since=fresh.since if present and fresh.since else _stamp(now),
        granted=view.granted,
        in_use=key in view.in_use,
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


def _next_step(view: NodeView, before: Entry, status: EntryStatus | None, now: datetime, pace: Pace) -> Entry | None:
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
            return _turned(before, EntryState.DRAINING, now)
        case EntryState.DRAINING if not _drained(view, before, now, pace):
            return before
        case EntryState.DRAINING if used:
            return _turned(before, EntryState.PRESENT, now)
        case EntryState.DRAINING if before.key not in (view.unwanted or ()):
            return before  # memory is behind: it will bring what wants it
        case EntryState.DRAINING:
            return _turned(before, EntryState.ABSENT, now)
        case EntryState.ABSENT:
            return None if _is_gone(before, status) else before
        case _:  # a newer controller's word: leave it
            return before


def _turned(entry: Entry, state: EntryState, now: datetime) -> Entry:
    return msgspec.structs.replace(
        entry, state=state, since=_stamp(now), in_use=state == EntryState.PRESENT, granted=False
    )


def _drained(view: NodeView, entry: Entry, now: datetime, pace: Pace) -> bool:
    """Return whether the agent has dropped the ready label, and new users have had time since to be seen."""
    at = view.acknowledged.get(entry.key)
    return entry.state == EntryState.DRAINING and at is not None and now >= at + timedelta(seconds=pace.drain_s)


def _is_gone(entry: Entry, status: EntryStatus | None) -> bool:
    return status is not None and status.observed == entry.state and status.phase == Phase.ABSENT


def _next_look(view: NodeView, entries: list[Entry], now: datetime, pace: Pace) -> float | None:
    """Return in how many seconds a removal goes on without any event, or None."""
    wanted = _wanted(view)
    leaving = [e for e in entries if e.key not in wanted and not _stays(view, e)]
    waits = [pace.users_s for e in leaving if e.state == EntryState.PRESENT]
    waits += [pace.users_s for key in _unknown(view) - {e.key for e in entries} if (view.users or {}).get(key)]
    for entry in leaving:
        at = view.acknowledged.get(entry.key)
        if entry.state == EntryState.DRAINING and at is not None:
            left_s = (at + timedelta(seconds=pace.drain_s) - now).total_seconds()
            waits.append(left_s if left_s > 0 else pace.users_s)
    return min(waits, default=None)


def _stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
