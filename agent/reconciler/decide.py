"""The next actions: a plain function of desired state, actual state and work in progress."""

from collections.abc import Iterator
from itertools import islice

from agent.reconciler.actions import (
    Action,
    ChangeLabels,
    DownloadEntry,
    FetchManifest,
    ReadSnapshotMetadata,
    ReleaseEntry,
    Remove,
    Reserve,
    SkipEntry,
    StopWork,
)
from agent.reconciler.entry_order import by_rank, by_turn
from agent.reconciler.labels import is_closed_to_pods, label_changes
from agent.reconciler.observation import (
    Downloading,
    FetchingManifest,
    Key,
    ManifestFetched,
    Observation,
    Removed,
    Removing,
    Reserved,
    Work,
    is_on_pvc,
    is_present,
)
from agent.reconciler.startup_taint import startup_taint_dues_s, startup_taint_removal
from shared.api.model_node import Entry, EntryState, ModelNode
from shared.names import snapshot_label

_MAX_FETCHING = 4  # concurrently: the controller's API rate-limits each node, and a manifest may have 16 MiB
MAX_REMOVING = 4  # concurrently: each takes a thread, possibly for minutes


def decide(observation: Observation) -> list[Action]:
    """Return the next actions in execution order; an empty list means: wait for a change."""
    actions: list[Action] = []
    changes = label_changes(observation)
    if changes and observation.label_patch_due_s <= observation.now_s:
        actions.append(ChangeLabels(tuple(changes.items())))
    if observation.own_model_node:
        actions += _stops(observation)
        actions += _removals(observation, observation.own_model_node)
        actions += _preparations(observation)
        actions += _reservations(observation)
        actions += _starts(observation)
        actions += [
            SkipEntry(e) for e in observation.entries.values() if is_on_pvc(e) and e.key not in observation.skipped
        ]
        actions += _metadata_readings(observation)
    if removal := startup_taint_removal(observation):
        actions.append(removal)
    return actions


def next_due_s(observation: Observation) -> float | None:
    """Return when time alone will change the result of `decide`, on the loop's clock in seconds."""
    dues = [s.due_s for key, s in observation.failures.items() if key in observation.entries]
    dues += [due_s for key, due_s in observation.metadata_due.items() if key in observation.entries]
    if label_changes(observation):
        dues.append(observation.label_patch_due_s)
    dues += startup_taint_dues_s(observation)
    return min((d for d in dues if d > observation.now_s), default=None)


def _stops(observation: Observation) -> Iterator[Action]:
    entries = observation.entries
    for key, work in observation.works.items():
        yield from _stop_or_reset(key, work, entries.get(key), observation)


def _stop_or_reset(key: Key, work: Work, entry: Entry | None, observation: Observation) -> Iterator[Action]:
    wanted = entry is not None and is_present(entry)
    match work:
        case Downloading(stopping=True) | Removing():
            return
        case Removed():
            if entry is None or entry.state != EntryState.ABSENT or key in observation.held:  # files have reappeared
                yield ReleaseEntry(key)
        case Downloading() | FetchingManifest() if (
            entry is None or not wanted or not _may_continue(entry, work, observation)
        ):
            yield StopWork(key)
        case ManifestFetched() | Reserved() if (
            entry is None or not wanted or not _still_needed(entry, work, observation)
        ):
            yield ReleaseEntry(key)
        case _:
            return


def _may_continue(entry: Entry, work: Downloading | FetchingManifest, observation: Observation) -> bool:
    if work.manifest != entry.manifest:
        return False
    return isinstance(work, FetchingManifest) or entry.granted or entry.key in observation.held


def _still_needed(entry: Entry, work: ManifestFetched | Reserved, observation: Observation) -> bool:
    return work.manifest == entry.manifest and not observation.is_intact(entry.key, entry.manifest)


def _removals(observation: Observation, node: ModelNode) -> Iterator[Action]:
    """Yield the removals, a few at a time; no other function does.

    An entry is removed only if its state is explicitly Absent and no label of the Node attracts pods to its snapshot.
    """
    free = MAX_REMOVING - sum(isinstance(w, Removing) for w in observation.works.values())
    due = (entry for entry in node.spec.entries if _may_remove(observation, entry))
    for entry in islice(due, max(free, 0)):
        yield Remove(entry, node.metadata.uid, node.metadata.generation)


def _may_remove(observation: Observation, entry: Entry) -> bool:
    if entry.state != EntryState.ABSENT or entry.key in observation.works or observation.blocked(entry):
        return False
    return snapshot_label(*entry.key) not in observation.labels and is_closed_to_pods(observation, entry)


def _preparations(observation: Observation) -> Iterator[Action]:
    free = _MAX_FETCHING - sum(isinstance(w, FetchingManifest) for w in observation.works.values())
    due = [
        e for e in _missing(observation) if e.key not in observation.works and e.manifest and not observation.blocked(e)
    ]
    yield from (FetchManifest(entry) for entry in by_turn(observation, due, FetchingManifest)[: max(free, 0)])


def _reservations(observation: Observation) -> Iterator[Action]:
    for entry in by_rank(observation, _missing(observation)):
        work = observation.works.get(entry.key)
        if isinstance(work, ManifestFetched) and work.manifest == entry.manifest and not observation.blocked(entry):
            yield Reserve(entry)


def _starts(observation: Observation) -> Iterator[Action]:
    free = observation.slots - sum(isinstance(w, Downloading) for w in observation.works.values())
    ready = [e for e in _missing(observation) if _may_start(observation, e)]
    yield from (
        DownloadEntry(e, e.key in observation.held) for e in by_turn(observation, ready, Downloading)[: max(free, 0)]
    )


def _may_start(observation: Observation, entry: Entry) -> bool:
    work = observation.works.get(entry.key)
    reserved = isinstance(work, Reserved) and work.manifest == entry.manifest
    return reserved and (entry.granted or entry.key in observation.held)


def _metadata_readings(observation: Observation) -> Iterator[Action]:
    """Yield at most one, and only for a snapshot that pods can already use, so it delays nothing."""
    if observation.reading_metadata is None:
        due = (e for e in observation.entries.values() if is_present(e) and observation.wants_metadata(e))
        yield from (ReadSnapshotMetadata(entry) for entry in islice(due, 1))


def _missing(observation: Observation) -> Iterator[Entry]:
    for entry in observation.entries.values():
        if is_present(entry) and not observation.is_intact(entry.key, entry.manifest):
            yield entry
