"""Which models a node evicts to make room, and which return: plain functions of its ModelNode.

Sizes are in bytes; times are in the ModelNode's format (RFC 3339, UTC).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.api.model_node import Entry, EntryState, EntryStatus, ModelNodeStatus, Phase
from shared.errors import InsufficientStorage

_HEADROOM = 20  # an entry returns only if it fits with a twentieth of its size as headroom
_COMPLETE = (Phase.READY, Phase.REPAIRING)
Statuses = Mapping[tuple[str, str], EntryStatus]


@dataclass(frozen=True, slots=True)
class Need:
    """A model that lacks bytes on a node; 0 while its agent retries."""

    key: tuple[str, str]
    priority: int
    shortage_bytes: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on the node: the bytes that only it would free, and when it became idle (empty: unknown).

    `block_reason` says why it may not be evicted; empty if it may. `due_s` is the delay in seconds until its idle time
    alone permits eviction.
    """

    entry: Entry
    frees_bytes: int
    idle_since: str
    block_reason: str = ""
    due_s: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims in order, none if evicting everything permitted is not enough; and how much may be evicted in all."""

    victims: tuple[Candidate, ...]
    evictable_bytes: int


def needs(entries: Iterable[Entry], statuses: Statuses, limit: int) -> list[Need]:
    """Return the models that lack room but could fit, in the order in which their agent serves them."""
    waiting = [(e, s) for e in entries if (s := statuses.get(e.key)) is not None and lacks_room(e, s)]
    needy = [(e, s) for e, s in waiting if not _can_never_fit(e, s, limit)]
    needy.sort(key=lambda pair: (-pair[0].priority, pair[0].since, pair[0].key))
    return [Need(e.key, e.priority, s.shortage) for e, s in needy]


def lacks_room(entry: Entry, status: EntryStatus) -> bool:
    """Return whether a wanted entry is waiting for room."""
    return (
        entry.state == EntryState.PRESENT
        and status.observed == EntryState.PRESENT
        and status.phase == Phase.FAILED
        and status.reason == InsufficientStorage.__name__
    )


def _can_never_fit(entry: Entry, status: EntryStatus, limit: int) -> bool:
    """Return whether no eviction could help: its agent reports no shortage, and alone it exceeds the limit."""
    return lacks_room(entry, status) and status.shortage == 0 and 0 < limit < entry.size


def assess(
    entry: Entry, status: EntryStatus | None, users: Sequence[str], need: Need, now: datetime, idle_s: float
) -> Candidate:
    """Return an entry as an eviction candidate to make room for `need`; `users` are the pods seen to use it."""
    if status is None or status.phase != Phase.READY or entry.state != EntryState.PRESENT:
        word = (
            f"evicted for {entry.evicted_for}" if entry.evicted_for else f"not Ready ({state_or_phase(entry, status)})"
        )
        return Candidate(entry, status.frees if status else 0, "", word)
    since = max(entry.last_used, status.since)
    left_s = idle_s - _idle_s(since, now) if entry.priority == need.priority else 0.0
    return Candidate(
        entry, status.frees, since, _block_reason(entry, status, users, need, left_s), left_s if left_s > 0 else None
    )


def state_or_phase(entry: Entry, status: EntryStatus | None) -> str:
    """Return the state of an entry as one word."""
    return entry.state if entry.state != EntryState.PRESENT else status.phase if status else Phase.PENDING


def _block_reason(entry: Entry, status: EntryStatus, users: Sequence[str], need: Need, left_s: float) -> str:
    if entry.pinned:
        return "pinned"
    if users or entry.in_use:
        return f"in use by {', '.join(users[:3])}" if users else "in use"
    if not entry.claims:
        return "reserved, and no object would restore it"
    if entry.id == need.key[0]:
        return "another revision of the same model"
    if entry.priority > need.priority:
        return f"priority {entry.priority} is higher than {need.priority}"
    if left_s > 0:
        return f"same priority, and not idle long enough: {left_s / 60:.0f} min left"
    return "" if status.frees > 0 else "other models share all of its files"


def _idle_s(since: str, now: datetime) -> float:
    """Return how many seconds a model has been idle; one without a known time counts as not idle."""
    try:
        return (now - datetime.fromisoformat(since)) / timedelta(seconds=1)
    except (ValueError, TypeError):
        return 0.0


def eviction_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that may be evicted: lowest priority first, then longest idle."""
    evictable = (c for c in candidates if not c.block_reason)
    return sorted(evictable, key=lambda c: (c.entry.priority, c.idle_since, c.entry.key))


def plan_eviction(shortage_bytes: int, candidates: Iterable[Candidate]) -> Plan:
    """Return the entries to evict to free `shortage_bytes`: in order, and no more than necessary."""
    able = eviction_order(candidates)
    evictable = sum(c.frees_bytes for c in able)
    if shortage_bytes <= 0 or evictable < shortage_bytes:
        return Plan((), evictable)
    chosen, freed = list[Candidate](), 0
    for candidate in able:
        if freed >= shortage_bytes:
            break
        chosen.append(candidate)
        freed += candidate.frees_bytes
    for candidate in reversed(chosen.copy()):
        if freed - candidate.frees_bytes >= shortage_bytes:
            chosen.remove(candidate)
            freed -= candidate.frees_bytes
    return Plan(tuple(chosen), evictable)


def available_bytes(entries: Iterable[Entry], status: ModelNodeStatus, limit: int) -> int:
    """Return the free bytes for one more model, after reserving what wanted models still have to fetch, each in full.

    A status's numbers lag behind its phases: what is present according to the phases always counts as used.
    """
    statuses = {s.key: s for s in status.entries}
    unreported = max(0, sum(s.frees for s in status.entries) - status.used)
    pending = 0
    for entry in entries:
        known = statuses.get(entry.key)
        if known is not None and (known.phase in _COMPLETE or _can_never_fit(entry, known, limit)):
            continue
        if entry.state == EntryState.PRESENT:
            pending += entry.size
    free = status.disk_free - status.floor
    return (min(free, limit - status.used) if limit else free) - unreported - pending


def entries_that_fit(evicted: Iterable[Entry], free_bytes: int, *, alone: bool) -> list[Entry]:
    """Return the evicted models that fit again: highest priority first, then most recently used.

    `alone`: no other model is wanted on the node, so no headroom is needed.
    """
    restored = list[Entry]()
    for entry in sorted(evicted, key=lambda e: (e.priority, e.last_used, e.key), reverse=True):
        headroom = 0 if alone and not restored else entry.size // _HEADROOM
        if entry.size + headroom <= free_bytes:
            restored.append(entry)
            free_bytes -= entry.size
    return restored
