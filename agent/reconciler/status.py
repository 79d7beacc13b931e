"""How the agent reports the state of each entry."""

from typing import assert_never

import msgspec

from agent.reconciler.labels import is_ready_by_another
from agent.reconciler.observation import (
    Cause,
    Failure,
    Fetching,
    Observation,
    Prepared,
    Preparing,
    Removed,
    Removing,
    Reserved,
    is_claim,
)
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S
from shared.api.model_node import EVICTED, Entry, EntryState, EntryStatus, ModelNodeStatus, Phase
from shared.errors import InsufficientStorage, SourceChanged
from shared.names import ready_label
from shared.quantity import format_bytes

_LONGEST_MESSAGE = 2000
# Failures that a retry resolves before any byte arrives: there is space now, or the source was resolved again.
_ANSWERED = frozenset((InsufficientStorage.__name__, SourceChanged.__name__))
_SHORTER_MESSAGES = (500, 200, 80, 0)
_MOST_UNNAMED = 500  # the controller answers a hundred at a time; the rest are reported then
_MOST_BYTES = 384 * 1024  # of a status, so that the object stays below 1 MiB with its spec


def statuses(observation: Observation) -> list[EntryStatus]:
    """Return the status of every entry and of every unlisted snapshot; `since` is left empty."""
    entries = observation.entries
    reported = [_with_space(s, e, observation) for e in entries.values() if (s := _of_entry(e, observation))]
    unnamed = sorted(key for key in observation.held if key not in entries)
    return reported + [_unnamed(key, observation) for key in unnamed[:_MOST_UNNAMED]]


def fitted(status: ModelNodeStatus) -> ModelNodeStatus:
    """Return the status within its size limit: messages are cut as needed, then the last entries lose metadata."""
    for longest in _SHORTER_MESSAGES:
        if len(msgspec.json.encode(status)) <= _MOST_BYTES:
            break
        cut = [msgspec.structs.replace(e, message=e.message[:longest]) for e in status.entries]
        status = msgspec.structs.replace(status, entries=cut)
    return _with_less_metadata(status, len(msgspec.json.encode(status)) - _MOST_BYTES)


def _with_less_metadata(status: ModelNodeStatus, surplus_bytes: int) -> ModelNodeStatus:
    """Return the status this many bytes smaller: the last entries lose metadata, which other nodes may report."""
    entries = list(status.entries)
    for index in reversed(range(len(entries))):
        if surplus_bytes <= 0:
            break
        if (metadata := entries[index].metadata) is not None:
            surplus_bytes -= len(msgspec.json.encode(metadata))
            entries[index] = msgspec.structs.replace(entries[index], metadata=None)
    return msgspec.structs.replace(status, entries=entries)


def _of_entry(entry: Entry, observation: Observation) -> EntryStatus | None:
    match entry.state:
        case EntryState.PRESENT:
            return None if is_claim(entry) else _present(entry, observation)
        case EntryState.DRAINING:
            return _draining(entry, observation)
        case EntryState.ABSENT:
            return _absent(entry, observation)
        case _:
            message = f"the state {entry.state!r} is not known to this agent, so the files are kept; upgrade the agent"
            return _status(entry, Phase.UNKNOWN, Cause("UnknownState", message))


def _with_space(status: EntryStatus, entry: Entry, observation: Observation) -> EntryStatus:
    """Add the bytes that removing the entry frees and those it lacks; the shortage is 0 while it is asking again."""
    failure, frees = observation.failure(entry), observation.frees.get(entry.key, 0)
    if failure is None or status.phase != Phase.FAILED or failure.due_s != WHEN_SPACE_CHANGES_S:
        return msgspec.structs.replace(status, frees=frees)
    words = f"{status.message}; at most {format_bytes(entry.evictable)} may be evicted" if entry.evictable else ""
    return msgspec.structs.replace(
        status, frees=frees, shortage=failure.trouble.shortage, message=(words or status.message)[:_LONGEST_MESSAGE]
    )


def _unnamed(key: tuple[str, str], observation: Observation) -> EntryStatus:
    held = observation.held[key]
    message = f"{len(held.damaged)} files are damaged" if held.damaged else ""
    return EntryStatus(id=key[0], revision=key[1], phase=Phase.UNKNOWN, message=message, verified=held.verified)


def _present(entry: Entry, observation: Observation) -> EntryStatus:
    held, failure = observation.held.get(entry.key), observation.failure(entry)
    trouble = failure.trouble if failure else None
    if held and observation.is_sound(entry.key, entry.manifest):
        phase = Phase.READY if observation.has_labels(entry.key) else Phase.DOWNLOADING
        return _described(_status(entry, phase, None, held.verified), observation)
    if held:
        return _described(_status(entry, Phase.REPAIRING, trouble or _damage(held.damaged)), observation)
    work = observation.works.get(entry.key)
    match work:
        case Fetching(moved=True):
            return _status(entry, Phase.DOWNLOADING, work.trouble)
        case Fetching():
            return _tried_again(entry, Phase.DOWNLOADING, failure, work.trouble)
        case Reserved():
            return _tried_again(entry, Phase.WAITING, failure, None)
        case Preparing() | Prepared() | Removing() | Removed() | None:
            failed = failure and not failure.passing
            return _tried_again(entry, Phase.FAILED if failed else Phase.PENDING, failure, trouble)
        case _:
            assert_never(work)


def _described(status: EntryStatus, observation: Observation) -> EntryStatus:
    return msgspec.structs.replace(status, metadata=observation.reading(status.key))


def _tried_again(entry: Entry, phase: Phase, failure: Failure | None, trouble: Cause | None) -> EntryStatus:
    """Return the status of an entry that has received no byte since it failed; the failure stays until one arrives."""
    if failure is None or failure.passing or failure.trouble.reason in _ANSWERED:
        return _status(entry, phase, trouble)
    return msgspec.structs.replace(_status(entry, phase, failure.trouble), attempts=failure.failures)


def _damage(paths: tuple[str, ...]) -> Cause | None:
    if not paths:
        return None
    return Cause("FilesDamaged", f"{len(paths)} files are not what was committed, {paths[0]} among them")


def _draining(entry: Entry, observation: Observation) -> EntryStatus:
    """Return the status of a draining entry.

    It is acknowledged only after the label is gone from the Node, or belongs to another revision.
    """
    at_work = isinstance(observation.works.get(entry.key), Fetching)
    if at_work or not _ready_is_not_ours(entry, observation):
        return _status(
            entry, Phase.READY if entry.key in observation.held else Phase.PENDING, None, observed=EntryState.PRESENT
        )
    return _status(entry, Phase.DRAINING, _evicted(entry))


def _evicted(entry: Entry) -> Cause | None:
    """Return why an entry that objects still want is evicted."""
    if not entry.evicted_for:
        return None
    verb, size = "evicted" if entry.state == EntryState.ABSENT else "being evicted", format_bytes(entry.size)
    return Cause(
        EVICTED,
        f"{verb} since {entry.since} to make room for {entry.evicted_for}; it comes back when {size} and a twentieth "
        "of that are free, when its priority rises, or when it is pinned",
    )


def _ready_is_not_ours(entry: Entry, observation: Observation) -> bool:
    return ready_label(entry.id) not in observation.labels or is_ready_by_another(observation, entry.key)


def _absent(entry: Entry, observation: Observation) -> EntryStatus:
    if isinstance(observation.works.get(entry.key), Removed) and entry.key not in observation.held:
        return _status(entry, Phase.ABSENT, _evicted(entry))
    failure = observation.failure(entry)
    trouble = failure.trouble if failure else _evicted(entry)
    status = _status(entry, Phase.DRAINING, trouble, observed=EntryState.DRAINING)
    match observation.works.get(entry.key):
        case Removing(done_bytes=done, total_bytes=total) if done:
            words = f"{format_bytes(done)} of at most {format_bytes(total)} are gone"
            return msgspec.structs.replace(status, message=words)
        case _:
            return status


def _status(
    entry: Entry, phase: Phase, trouble: Cause | None, verified: str = "", observed: str | None = None
) -> EntryStatus:
    return EntryStatus(
        id=entry.id,
        revision=entry.revision,
        phase=phase,
        observed=entry.state if observed is None else observed,
        reason=trouble.reason if trouble else "",
        message=trouble.message[:_LONGEST_MESSAGE] if trouble else "",
        verified=verified,
    )
