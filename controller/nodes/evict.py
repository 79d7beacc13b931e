"""Evictions on a node: idle models make room for one that does not fit. No input or output, no clock.

    Present ──── chosen ────► Draining ──── all drained and confirmed ────► Absent ──── agent: gone ────► evicted
       ▲                          │                                                                          │
       ├─────── cancelled ────────┘                                                                          │
       └──────────────────────────────── room again, or requested again ─────────────────────────────────────┘

From Draining on, the `evictedFor` field of an entry names the model that it makes room for; unlike in a removal, its
objects still want it. There is one batch of victims at a time: all become Draining together, and Absent together.

Example: `new` (80 bytes) targets a node of 100 bytes that `old` (90 bytes, unused for hours) fills. Its agent reports
`new` as Failed with InsufficientStorage, short of 70 bytes. `old` frees 90, which is enough: it becomes Draining,
evicted for `new`. Once it is drained, no pod uses it, and live reads find neither a pin nor a group that forbids the
eviction, it becomes Absent; the agent removes its files and downloads `new`. When `new` goes, or the limit grows to 180
bytes, `old` fits again and becomes Present.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from controller.nodes.entry_states import is_gone, with_state
from controller.nodes.facts import Facts
from controller.placement.eviction import (
    Need,
    assess,
    available_bytes,
    entries_that_fit,
    lacks_room,
    needs,
    plan_eviction,
)
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class EvictionStep:
    """The entries that change, or what must be read first: the node's users, or the objects of these entries."""

    changed: dict[EntryKey, Entry] = field(default_factory=dict)
    needs_users: bool = False
    to_confirm: frozenset[EntryKey] = frozenset()
    requeue_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    """The victims that are draining now.

    `going` may still be evicted, `staying` may not. `frees_bytes` is what `going` and entries leaving anyway free.
    `shortage_bytes` is 0 while the model in need is being retried. `drain_left_s` is None until the agent has
    acknowledged every victim in `going`.
    """

    going: tuple[Entry, ...]
    staying: tuple[Entry, ...]
    frees_bytes: int
    shortage_bytes: int
    drain_left_s: float | None


def eviction_step(facts: Facts) -> EvictionStep:
    """Return the next step for the entries that objects want on the node."""
    marked = [e for e in facts.wanted.values() if e.evicted_for]
    # An entry requested again during a batch is left as it is, so that the change is still seen after the batch.
    postponed = {after.key: before for before, after in _requested_again(facts, marked)}
    if draining := [e for e in marked if e.state == EntryState.DRAINING]:
        step = _continue(facts, _batch(facts, draining))
        return replace(step, changed=postponed | step.changed)
    if not all(is_gone(e, facts.reported) for e in marked):
        return EvictionStep(postponed)  # the agent is removing the batch
    if restored := _entries_to_restore(facts, marked):
        return EvictionStep(_restore(facts, restored))
    if not facts.view.limits.evicts:
        return EvictionStep()
    step = _begin(facts)
    wait_s = _soonest(step.requeue_s, facts.timing.users_s if marked else None)
    return replace(step, changed=_need_ended(facts) | step.changed, requeue_s=wait_s)


def _begin(facts: Facts) -> EvictionStep:
    """Choose victims for the first model that evictions can help; set `evictable` for those that none can help."""
    view, leaving_bytes = facts.view, facts.leaving_bytes()
    requeue_s, changed = None, dict[EntryKey, Entry]()
    for need in needs(facts.wanted.values(), facts.reported, view.limits.storage_bytes):
        shortage_bytes = need.shortage_bytes - leaving_bytes
        if shortage_bytes <= 0:
            return EvictionStep(changed)  # its agent is retrying, or the entries leaving anyway free enough
        candidates = [
            assess(e, facts.reported.get(k), (view.users or {}).get(k, ()), need, facts.now, facts.timing.idle_s)
            for k, e in facts.wanted.items()
        ]
        plan = plan_eviction(shortage_bytes, candidates)
        if plan.victims and view.users is None:
            return EvictionStep(needs_users=True)
        if plan.victims:
            return EvictionStep(changed | {c.entry.key: _drain(facts, c.entry, need) for c in plan.victims})
        changed[need.key] = msgspec.structs.replace(facts.wanted[need.key], evictable=plan.evictable_bytes)
        requeue_s = _soonest(requeue_s, *(c.due_s for c in candidates), facts.timing.users_s if view.users else None)
    return EvictionStep(changed, requeue_s=requeue_s)


def _batch(facts: Facts, draining: Sequence[Entry]) -> _Batch:
    """Classify the victims by what is known now."""
    need = _need_of(facts, draining)
    going = tuple(e for e in draining if need is not None and _is_evictable(facts, e, need))
    waits = [facts.drain_left_s(e) for e in going]
    acknowledged = [s for s in waits if s is not None]
    return _Batch(
        going=going,
        staying=tuple(e for e in draining if e not in going),
        frees_bytes=sum(facts.frees_bytes(e.key) for e in going) + facts.leaving_bytes(),
        shortage_bytes=need.shortage_bytes if need else 0,
        drain_left_s=max(acknowledged) if acknowledged == waits != [] else None,
    )


def _need_of(facts: Facts, draining: Sequence[Entry]) -> Need | None:
    """Return the need that the batch serves; None if it has ended, or if nothing may be evicted."""
    if not facts.view.limits.evicts:
        return None
    ids = {e.evicted_for for e in draining}
    in_need = (e for e in facts.wanted.values() if e.id in ids)
    return next(iter(needs(in_need, facts.reported, facts.view.limits.storage_bytes)), None)


def _is_evictable(facts: Facts, entry: Entry, need: Need) -> bool:
    used = entry.key in facts.view.in_use or facts.has_users(entry.key)
    protected = entry.pinned or entry.priority > need.priority or entry.key in facts.view.protected
    return not used and not protected


def _continue(facts: Facts, batch: _Batch) -> EvictionStep:
    """Return the next step of a batch: cancel it, wait, request a missing read, or remove it."""
    if not batch.going or batch.frees_bytes < batch.shortage_bytes:
        return EvictionStep(_restore(facts, batch.going + batch.staying))  # cancelled: not needed, or not enough
    restored, keys = _restore(facts, batch.staying), frozenset(e.key for e in batch.going)
    users, unwanted = facts.view.users, facts.view.unwanted
    if batch.drain_left_s is None or batch.shortage_bytes <= 0:
        return EvictionStep(restored)  # the agent's next report triggers us
    if batch.drain_left_s > 0:
        return EvictionStep(restored, requeue_s=batch.drain_left_s)
    if users is None:
        return EvictionStep(restored, needs_users=True)
    if unwanted is None:
        return EvictionStep(restored, to_confirm=keys)
    if not keys <= unwanted:
        return EvictionStep(restored, requeue_s=_RETRY_S)  # the live reads were older than the end of the drain
    return EvictionStep(restored | {e.key: with_state(e, EntryState.ABSENT, facts.now) for e in batch.going})


def _need_ended(facts: Facts) -> dict[EntryKey, Entry]:
    """Return the entries that have room now, with `evictable` cleared."""
    pairs = ((e, facts.reported.get(k)) for k, e in facts.wanted.items() if e.evictable)
    return {e.key: msgspec.structs.replace(e, evictable=0) for e, s in pairs if s is not None and not lacks_room(e, s)}


def _entries_to_restore(facts: Facts, evicted: Sequence[Entry]) -> list[Entry]:
    """Return the evicted entries to fetch again."""
    view, wanted = facts.view, facts.wanted.values()
    if not view.limits.evicts or view.model_node is None:
        return list(evicted)
    if requested := [after for _, after in _requested_again(facts, evicted)]:
        return requested
    alone = all(e.state != EntryState.PRESENT for e in wanted)
    return entries_that_fit(
        evicted, available_bytes(wanted, view.model_node.status, view.limits.storage_bytes), alone=alone
    )


def _requested_again(facts: Facts, marked: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Return the evicted entries that were requested again, each as it is and as it should be."""
    pairs = ((facts.listed[e.key], e) for e in marked if e.state == EntryState.ABSENT)
    return [(before, after) for before, after in pairs if _is_requested_again(before, after)]


def _is_requested_again(before: Entry, after: Entry) -> bool:
    claimed = {c.uid for c in after.claims} - {c.uid for c in before.claims}
    return after.priority > before.priority or (after.pinned and not before.pinned) or bool(claimed)


def _drain(facts: Facts, entry: Entry, need: Need) -> Entry:
    return msgspec.structs.replace(with_state(entry, EntryState.DRAINING, facts.now), evicted_for=need.key[0])


def _restore(facts: Facts, entries: Iterable[Entry]) -> dict[EntryKey, Entry]:
    """Return the entries as Present again."""
    return {
        e.key: msgspec.structs.replace(
            with_state(e, EntryState.PRESENT, facts.now),
            granted=facts.view.granted,
            in_use=e.key in facts.view.in_use or facts.has_users(e.key),
        )
        for e in entries
    }


def _soonest(*waits_s: float | None) -> float | None:
    return min((w for w in waits_s if w is not None), default=None)
