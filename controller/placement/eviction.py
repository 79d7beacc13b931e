"""What goes from a node to make room for a model, and what comes back: plain functions of its ModelNode.

Sizes are in bytes; times are as they stand in the ModelNode (RFC 3339, UTC).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.api.model_node import Entry, EntryState, EntryStatus, ModelNodeStatus, Phase
from shared.errors import InsufficientStorage

_SPARE = 20  # what comes back must fit with a twentieth of its size to spare
_HERE = (Phase.READY, Phase.REPAIRING)
Statuses = Mapping[tuple[str, str], EntryStatus]


@dataclass(frozen=True, slots=True)
class Need:
    """A model that lacks bytes on a node; 0 while its agent asks anew."""

    key: tuple[str, str]
    priority: int
    shortage_bytes: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on the node: what goes with it alone, since when it is idle (empty: not known), and why it stays.

    `stays` is empty where it may go; `due_s` says in how many seconds its idle time alone will let it go.
    """

    entry: Entry
    frees_bytes: int
    idle_since: str
    stays: str = ""
    due_s: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims in their order, none where all that may go does not suffice; and how much may go in all."""

    victims: tuple[Candidate, ...]
    evictable_bytes: int


def needs(entries: Iterable[Entry], statuses: Statuses, limit: int) -> list[Need]:
    """Return the models that do not fit and may, in the order in which their agent serves them."""
    lacking = [(e, s) for e in entries if (s := statuses.get(e.key)) is not None and lacks_room(e, s)]
    asking = [(e, s) for e, s in lacking if not _can_never_fit(e, s, limit)]
    asking.sort(key=lambda pair: (-pair[0].priority, pair[0].since, pair[0].key))
    return [Need(e.key, e.priority, s.shortage) for e, s in asking]


def lacks_room(entry: Entry, status: EntryStatus) -> bool:
    """Return whether a wanted entry waits for room."""
    return (
        entry.state == EntryState.PRESENT
        and status.observed == EntryState.PRESENT
        and status.phase == Phase.FAILED
        and status.reason == InsufficientStorage.__name__
    )


def _can_never_fit(entry: Entry, status: EntryStatus, limit: int) -> bool:
    """Return whether whatever goes would not help: its agent names no shortage, and alone it is over the limit."""
    return lacks_room(entry, status) and status.shortage == 0 and 0 < limit < entry.size


def weigh(
    entry: Entry, status: EntryStatus | None, users: Sequence[str], need: Need, now: datetime, idle_s: float
) -> Candidate:
    """Return an entry as a candidate to make room for `need`; `users` are the pods that were seen to use it."""
    if status is None or status.phase != Phase.READY or entry.state != EntryState.PRESENT:
        word = f"evicted for {entry.evicted_for}" if entry.evicted_for else f"not Ready ({status_word(entry, status)})"
        return Candidate(entry, status.frees if status else 0, "", word)
    since = max(entry.last_used, status.since)
    left_s = idle_s - _idle_s(since, now) if entry.priority == need.priority else 0.0
    return Candidate(
        entry, status.frees, since, _why_it_stays(entry, status, users, need, left_s), left_s if left_s > 0 else None
    )


def status_word(entry: Entry, status: EntryStatus | None) -> str:
    """Return where an entry stands, in a word."""
    return entry.state if entry.state != EntryState.PRESENT else status.phase if status else Phase.PENDING


def _why_it_stays(entry: Entry, status: EntryStatus, users: Sequence[str], need: Need, left_s: float) -> str:
    if entry.pinned:
        return "pinned"
    if users or entry.in_use:
        return f"in use by {', '.join(users[:3])}" if users else "in use"
    if not entry.claims:
        return "reserved, and no object would bring it back"
    if entry.id == need.key[0]:
        return "another revision of the same model"
    if entry.priority > need.priority:
        return f"priority {entry.priority} is higher than {need.priority}"
    if left_s > 0:
        return f"same priority, and idle too short: {left_s / 60:.0f} min more"
    return "" if status.frees > 0 else "other models have all its files too"


def _idle_s(since: str, now: datetime) -> float:
    """Return for how long a model is idle; one of which nothing is known is not."""
    try:
        return (now - datetime.fromisoformat(since)) / timedelta(seconds=1)
    except (ValueError, TypeError):
        return 0.0


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return those that may go: the lowest priority first, then the longest idle."""
    able = (c for c in candidates if not c.stays)
    return sorted(able, key=lambda c: (c.entry.priority, c.idle_since, c.entry.key))


def plan_eviction(shortage_bytes: int, candidates: Iterable[Candidate]) -> Plan:
    """Return what goes to free so many bytes: in order, and nothing that could as well stay."""
    able = in_order(candidates)
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


def room_bytes(entries: Iterable[Entry], status: ModelNodeStatus, limit: int) -> int:
    """Return what is free for one more model: less what wanted models have to bring still, each counted whole.

    The figures of a status lag behind its phases: what is there by the latter counts as used in any case.
    """
    statuses = {s.key: s for s in status.entries}
    untold = max(0, sum(s.frees for s in status.entries) - status.used)
    owed = 0
    for entry in entries:
        told = statuses.get(entry.key)
        if told is not None and (told.phase in _HERE or _can_never_fit(entry, told, limit)):
            continue
        if entry.state == EntryState.PRESENT:
            owed += entry.size
    free = status.disk_free - status.floor
    return (min(free, limit - status.used) if limit else free) - untold - owed


def returning(evicted: Iterable[Entry], room: int, *, alone: bool) -> list[Entry]:
    """Return which evicted models fit again, the highest priority first, then the last used.

    `alone`: no other model is wanted on the node; then none of the room has to be spared.
    """
    back = list[Entry]()
    for entry in sorted(evicted, key=lambda e: (e.priority, e.last_used, e.key), reverse=True):
        spare = 0 if alone and not back else entry.size // _SPARE
        if entry.size + spare <= room:
            back.append(entry)
            room -= entry.size
    return back
