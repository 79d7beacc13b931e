"""How the agent reports the state of each entry, of itself and of its store."""

from typing import assert_never

import msgspec

from agent.reconciler.labels import is_closed_to_pods
from agent.reconciler.observation import (
    Cause,
    Downloading,
    Failure,
    FetchingManifest,
    HeldSnapshot,
    ManifestFetched,
    Observation,
    Removed,
    Removing,
    Reserved,
    is_on_pvc,
)
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S
from agent.store.floor import StoreVolume
from shared.api.meta import Condition
from shared.api.model_node import EVICTED, LABELS_REFUSED, Entry, EntryState, EntryStatus, ModelNodeStatus, Phase
from shared.errors import InsufficientStorage, SourceChanged, TooManyFilesOnNode
from shared.names import snapshot_label
from shared.quantity import format_bytes

READY = "Ready"
ON_ROOT_DISK = "StoreOnRootDisk"
_LONGEST_MESSAGE = 2000
# Failures that a retry resolves before any byte arrives: there is space now, or the source was resolved again.
_RESOLVED_EARLY = frozenset((InsufficientStorage.__name__, SourceChanged.__name__, TooManyFilesOnNode.__name__))
_SHORTER_MESSAGES = (500, 200, 80, 0)
_MAX_UNLISTED = 500  # the controller handles a hundred at a time; the rest are reported after those
_MAX_BYTES = 384 * 1024  # of a status, so that the object, with its spec, stays below 1 MiB


def entry_statuses(observation: Observation) -> list[EntryStatus]:
    """Return the status of every entry and of every unlisted snapshot; `since` is left empty."""
    entries = observation.entries
    reported = [_with_space(s, e, observation) for e in entries.values() if (s := _entry_status(e, observation))]
    unlisted = sorted(key for key in observation.held if key not in entries)
    return reported + [_unlisted(key, observation) for key in unlisted[:_MAX_UNLISTED]]


def fit_size(status: ModelNodeStatus) -> ModelNodeStatus:
    """Return the status within its size limit: messages are cut as needed, then the last entries lose metadata."""
    for longest in _SHORTER_MESSAGES:
        if len(msgspec.json.encode(status)) <= _MAX_BYTES:
            break
        cut = [msgspec.structs.replace(e, message=e.message[:longest]) for e in status.entries]
        status = msgspec.structs.replace(status, entries=cut)
    return _with_less_metadata(status, len(msgspec.json.encode(status)) - _MAX_BYTES)


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


def _entry_status(entry: Entry, observation: Observation) -> EntryStatus | None:
    match entry.state:
        case EntryState.PRESENT:
            return None if is_on_pvc(entry) else _present(entry, observation)
        case EntryState.DRAINING:
            return _draining(entry, observation)
        case EntryState.ABSENT:
            return _absent(entry, observation)
        case _:
            message = f"this agent does not know the state {entry.state!r}, so it keeps the files; upgrade the agent"
            return _status(entry, Phase.UNKNOWN, Cause("UnknownState", message))


def _with_space(status: EntryStatus, entry: Entry, observation: Observation) -> EntryStatus:
    """Add the bytes that removing the entry frees and those it lacks; the shortage is 0 while it is asking again."""
    failure, frees = observation.failure(entry), observation.frees.get(entry.key, 0)
    if failure is None or status.phase != Phase.FAILED or failure.due_s != WHEN_SPACE_CHANGES_S:
        return msgspec.structs.replace(status, frees=frees)
    message = f"{status.message}; at most {format_bytes(entry.evictable)} may be evicted" if entry.evictable else ""
    return msgspec.structs.replace(
        status, frees=frees, shortage=failure.cause.shortage, message=(message or status.message)[:_LONGEST_MESSAGE]
    )


def _unlisted(key: tuple[str, str], observation: Observation) -> EntryStatus:
    held = observation.held[key]
    message = f"damaged files: {len(held.damaged)}" if held.damaged else ""
    return EntryStatus(id=key[0], revision=key[1], phase=Phase.UNKNOWN, message=message, verified=held.verified)


def _present(entry: Entry, observation: Observation) -> EntryStatus:
    held, failure = observation.held.get(entry.key), observation.failure(entry)
    cause = failure.cause if failure else None
    if held and observation.is_intact(entry.key, entry.manifest):
        return _with_metadata(_complete(entry, held, observation), observation)
    if held:
        return _with_metadata(_status(entry, Phase.REPAIRING, cause or _damage(held.damaged)), observation)
    work = observation.works.get(entry.key)
    match work:
        case Downloading(has_received=True):
            return _status(entry, Phase.DOWNLOADING, work.retrying)
        case Downloading():
            return _retrying(entry, Phase.DOWNLOADING, failure, work.retrying)
        case Reserved():
            return _retrying(entry, Phase.WAITING, failure, None)
        case FetchingManifest() | ManifestFetched() | Removing() | Removed() | None:
            failed = failure and not failure.transient
            return _retrying(entry, Phase.FAILED if failed else Phase.PENDING, failure, cause)
        case _:
            assert_never(work)


def _complete(entry: Entry, held: HeldSnapshot, observation: Observation) -> EntryStatus:
    if observation.has_labels(entry.key):
        return _status(entry, Phase.READY, None, held.verified)
    cause = _refused_labels(observation)
    status = _status(entry, Phase.DOWNLOADING, cause, held.verified)
    return msgspec.structs.replace(status, attempts=1) if cause else status  # a failure, although not of the download


def _refused_labels(observation: Observation) -> Cause | None:
    if not observation.labels_refused:
        return None
    return Cause(
        LABELS_REFUSED,
        "the API server refuses the agent's change to the labels of its Node, so the scheduler does not learn which "
        f"models are there: {observation.labels_refused}; permit it in the admission policies, webhooks and roles "
        "that apply to the agent; it is retried every few seconds",
    )


def _with_metadata(status: EntryStatus, observation: Observation) -> EntryStatus:
    return msgspec.structs.replace(status, metadata=observation.metadata_of(status.key))


def _retrying(entry: Entry, phase: Phase, failure: Failure | None, cause: Cause | None) -> EntryStatus:
    """Return the status of an entry that has received no byte since it failed; the failure stays until one arrives."""
    if failure is None or failure.transient or failure.cause.reason in _RESOLVED_EARLY:
        return _status(entry, phase, cause)
    return msgspec.structs.replace(_status(entry, phase, failure.cause), attempts=failure.attempts)


def _damage(paths: tuple[str, ...]) -> Cause | None:
    if not paths:
        return None
    return Cause("FilesDamaged", f"damaged files: {len(paths)}, including {paths[0]}; they are downloaded again")


def _draining(entry: Entry, observation: Observation) -> EntryStatus:
    """Return the status of a draining entry.

    It is acknowledged only after the Node's labels keep new pods away.
    """
    at_work = isinstance(observation.works.get(entry.key), Downloading)
    if at_work or not is_closed_to_pods(observation, entry):
        phase = Phase.READY if entry.key in observation.held else Phase.PENDING
        cause = None if at_work else _refused_labels(observation)
        return _status(entry, phase, cause, observed=EntryState.PRESENT)
    return _status(entry, Phase.DRAINING, _evicted(entry))


def _evicted(entry: Entry) -> Cause | None:
    """Return why an entry that objects still want is evicted."""
    if not entry.evicted_for:
        return None
    verb, size = "evicted" if entry.state == EntryState.ABSENT else "being evicted", format_bytes(entry.size)
    return Cause(
        EVICTED,
        f"{verb} since {entry.since} to make room for {entry.evicted_for}; it comes back when {size} plus 5% are free, "
        "or if its priority is raised or it is pinned",
    )


def _absent(entry: Entry, observation: Observation) -> EntryStatus:
    if isinstance(observation.works.get(entry.key), Removed) and entry.key not in observation.held:
        return _status(entry, Phase.ABSENT, _evicted(entry))
    failure = observation.failure(entry)
    waits = snapshot_label(*entry.key) in observation.labels or not is_closed_to_pods(observation, entry)
    refused = _refused_labels(observation) if waits else None
    cause = failure.cause if failure else refused or _evicted(entry)
    status = _status(entry, Phase.DRAINING, cause, observed=EntryState.DRAINING)
    match observation.works.get(entry.key):
        case Removing(done_bytes=done, total_bytes=total) if done:
            message = f"{format_bytes(done)} of at most {format_bytes(total)} are gone"
            return msgspec.structs.replace(status, message=message)
        case _:
            return status


def _status(
    entry: Entry, phase: Phase, cause: Cause | None, verified: str = "", observed: str | None = None
) -> EntryStatus:
    return EntryStatus(
        id=entry.id,
        revision=entry.revision,
        phase=phase,
        observed=entry.state if observed is None else observed,
        reason=cause.reason if cause else "",
        message=cause.message[:_LONGEST_MESSAGE] if cause else "",
        verified=verified,
    )


def node_conditions(volume: StoreVolume, disk_size: int, floor: int, generation: int) -> list[Condition]:
    """Return the conditions observed at this generation.

    `lastTransitionTime` is left empty.

    Args:
        volume: The store's volume.
        disk_size: Size of its disk in bytes.
        floor: Bytes of the disk that must stay free.
        generation: Generation of the ModelNode that was observed.
    """
    conditions = (_ready(volume), _on_root_disk(volume, disk_size, floor))
    return [msgspec.structs.replace(condition, observed_generation=generation) for condition in conditions]


def _ready(volume: StoreVolume) -> Condition:
    """Return whether the agent can act on the spec; each entry's progress is in its own status."""
    if why := volume.why_refused():
        return _condition(READY, "False", "StoreRefused", why)
    return _condition(READY, "True", "AgentFollows", "the agent applies the spec to the node")


def _on_root_disk(volume: StoreVolume, disk_size: int, floor: int) -> Condition:
    if not volume.on_root_disk:
        return _condition(ON_ROOT_DISK, "False", "DiskOfItsOwn", "the store is on a disk of its own")
    if why := volume.why_refused():
        return _condition(ON_ROOT_DISK, "True", "Refused", why)
    message = (
        f"the store {volume.root} is on the node's root file system ({format_bytes(disk_size)}), where kubelet evicts "
        f"pods when space runs low; {format_bytes(floor)} are kept free, but a disk of its own would be better"
    )
    return _condition(ON_ROOT_DISK, "True", "DiskOfTheNode", message)


def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")
