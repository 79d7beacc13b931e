"""The entries a node should have: those that objects want, and others that are kept. No input or output, no clock."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controller.nodes.entry_states import is_gone, with_state
from controller.nodes.view import NodeView
from controller.placement.demand import Demand
from controller.placement.shares import ModelNodeCapacity, refuse_beyond_shares
from controller.state.keys import EntryKey
from shared.api.model_node import Claim, Entry, EntryState
from shared.kube.objects import timestamp


def find_unplaced(view: NodeView, now: datetime, capacity: ModelNodeCapacity) -> dict[EntryKey, str]:
    """Return the wanted entries that do not fit into the ModelNode, each with the reason."""
    listed, demanded = view.listed(), _demanded(view)
    new = sorted(demanded.keys() - listed.keys(), key=lambda key: _rank(demanded[key], key))
    return refuse_beyond_shares(
        listed.values(), (_wanted_entry(view, key, demanded[key], None, now) for key in new), capacity
    )


def wanted_entries(view: NodeView, now: datetime) -> dict[EntryKey, Entry]:
    """Return the entries that objects want, listed or new, in their desired form unless an eviction changes them."""
    listed, reported = view.listed(), view.reported()
    wanted: dict[EntryKey, Entry] = {}
    for key, demands in _demanded(view).items():
        before = listed.get(key)
        being_removed = before is not None and before.state == EntryState.ABSENT and not is_gone(before, reported)
        # an entry that the agent is removing stays as it is until it is gone; the next run restores it
        wanted[key] = before if before and being_removed else _wanted_entry(view, key, demands, before, now)
    return wanted


def kept_entry(view: NodeView, entry: Entry, now: datetime) -> Entry | None:
    """Return the desired form of an entry that no object wants, or None if it should leave the node.

    Reserved files outlive their object. Files of an object that Larder may no longer manage stay as they are.
    """
    if entry.state == EntryState.ABSENT:
        return None
    uids = {c.uid for c in entry.claims}
    reserved = entry.reserved and uids.isdisjoint(view.declared_uids)
    if not reserved and uids.isdisjoint(view.retained.uids):
        return None
    if entry.state == EntryState.DRAINING and entry.evicted_for:
        entry = with_state(entry, EntryState.PRESENT, now)
    in_use, awaited = entry.key in view.in_use, entry.key in view.awaited
    if reserved:
        return msgspec.structs.replace(entry, claims=[], in_use=in_use, awaited=awaited)
    return msgspec.structs.replace(entry, granted=view.granted, in_use=in_use, awaited=awaited)


def _demanded(view: NodeView) -> Mapping[EntryKey, list[Demand]]:
    """Return the demands for each entry: the resolved revision, and others that the node has or can still get.

    The others are the serving revision, revisions that pods on the node wait for, and those held for unscheduled pods.
    """
    present = view.listed().keys() | view.reported().keys()
    available = present | (view.restored.keys() - view.unplaced.keys())
    needed = (view.awaited | view.held.keys()) & available
    demanded: dict[EntryKey, list[Demand]] = {}
    for demand in view.demands:
        keys = {key for key in needed if key[0] == demand.id} if needed else set[EntryKey]()
        resolved = demand.resolution.revision if demand.resolution else ""
        if resolved and (demand.id, resolved) not in view.unplaced:
            keys.add((demand.id, resolved))
        if demand.serving not in ("", resolved) and (demand.id, demand.serving) in present:
            keys.add((demand.id, demand.serving))
        for key in keys:
            demanded.setdefault(key, []).append(demand)
    return demanded


def _rank(demands: Sequence[Demand], key: EntryKey) -> tuple[int, tuple[str, str], EntryKey]:
    """Sort key for the models of a namespace: higher priority first, then the older object."""
    return -max(d.priority for d in demands), min(d.age for d in demands), key


def _wanted_entry(
    view: NodeView, key: EntryKey, demands: Sequence[Demand], before: Entry | None, now: datetime
) -> Entry:
    entry = before or _new_entry(view, key)
    evicted = bool(entry.evicted_for)  # only the eviction logic restores it
    is_unchanged = evicted or (before is not None and before.state == EntryState.PRESENT)
    resolution = next((d.resolution for d in demands if d.resolution and d.resolution.revision == key[1]), None)
    return msgspec.structs.replace(
        entry,
        uri=resolution.uri if resolution else entry.uri,
        manifest=resolution.manifest if resolution else entry.manifest,
        size=resolution.size_bytes if resolution else entry.size,
        priority=max(d.priority for d in demands),
        pinned=any(d.pinned for d in demands),
        reserved=any(d.reserved for d in demands),
        state=entry.state if evicted else EntryState.PRESENT,
        since=entry.since if is_unchanged and entry.since else timestamp(now),
        granted=view.granted and not evicted,
        in_use=key in view.in_use,
        awaited=key in view.awaited,
        evictable=entry.evictable if view.limits.evicts else 0,
        last_used=timestamp(now) if entry.in_use and key not in view.in_use else entry.last_used,
        claims=[_claim(view, d) for d in sorted(demands, key=lambda d: d.age)],
    )


def _new_entry(view: NodeView, key: EntryKey) -> Entry:
    found = view.restored.get(key, Entry(id=key[0], revision=key[1]))
    return Entry(id=found.id, revision=found.revision, uri=found.uri, manifest=found.manifest, size=found.size)


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
