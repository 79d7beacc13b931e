"""The node labels that the disk, the ModelNode and the work in progress justify."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.reconciler.observation import (
    Downloading,
    HeldSnapshot,
    Key,
    Observation,
    Removing,
    is_on_pvc,
    is_present,
)
from shared.api.model_node import Entry, EntryState
from shared.names import (
    DRAINING_PREFIX,
    FETCHING_PREFIX,
    READY_PREFIX,
    SNAPSHOT_PREFIX,
    draining_label,
    fetching_label,
    ready_label,
    snapshot_label,
)

ON = "true"
_PREFIXES = (SNAPSHOT_PREFIX, FETCHING_PREFIX, DRAINING_PREFIX)


@dataclass(frozen=True, slots=True)
class JustifiedLabels:
    """Labels that a snapshot on disk justifies: `wanted` are set, `kept` are left if already set."""

    wanted: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that the agent owns; a key such as model-cache-ready-x.org/y is not one of them."""
    return {k: v for k, v in labels.items() if k.startswith(_PREFIXES) or _is_ready_label(k)}


def _is_ready_label(key: str) -> bool:
    return key.startswith(READY_PREFIX) and "/" not in key


def label_changes(observation: Observation) -> dict[str, str | None]:
    """Return the patch that corrects the node's labels, removals first; empty if they are correct."""
    justified = [*_justified(observation, observation.held), *_draining(observation)]
    wanted = frozenset(_fetching(observation)).union(*(j.wanted for j in justified))
    kept = wanted.union(*(j.kept for j in justified))
    drops = {k: None for k in sorted(observation.labels) if k not in kept}
    sets = {k: ON for k in sorted(wanted) if observation.labels.get(k) != ON}
    return {**drops, **sets}


def _fetching(observation: Observation) -> Iterator[str]:
    """Yield the labels of downloads in progress that have received bytes; repairs already have the files.

    The first byte does not wake the agent, so a short download never changes the Node.
    """
    for entry in filter(is_present, observation.entries.values()):
        work = observation.works.get(entry.key)
        runs = isinstance(work, Downloading) and work.has_received and not work.stopping
        if runs and entry.granted and entry.key not in observation.held:
            yield fetching_label(*entry.key)


def _draining(observation: Observation) -> Iterator[JustifiedLabels]:
    """Yield the labels of snapshots that are being removed; they stay until no file can be reached."""
    for key in observation.held:
        label, entry = frozenset({draining_label(*key)}), observation.entries.get(key)
        if entry is not None and is_leaving(entry):
            yield JustifiedLabels(wanted=label)
        elif (entry is None and not observation.synced) or isinstance(observation.works.get(key), Removing):
            yield JustifiedLabels(kept=label)


def is_leaving(entry: Entry) -> bool:
    """Return whether the files of an entry are about to be removed, or are being removed."""
    return entry.state in (EntryState.DRAINING, EntryState.ABSENT) and not is_on_pvc(entry)


def is_closed_to_pods(observation: Observation, entry: Entry) -> bool:
    """Return whether the Node's labels keep new pods away from the files of a leaving entry."""
    closed = entry.key not in observation.held or is_on_pvc(entry) or draining_label(*entry.key) in observation.labels
    return closed and (ready_label(entry.id) not in observation.labels or is_ready_by_another(observation, entry.key))


def is_ready_by_another(observation: Observation, key: Key) -> bool:
    """Return whether another revision of the model, listed or not, justifies its ready label."""
    others = (held for held in observation.held if held[0] == key[0] and held != key)
    ready = ready_label(key[0])
    return any(ready in justified.wanted | justified.kept for justified in _justified(observation, others))


def _justified(observation: Observation, keys: Iterable[Key]) -> Iterator[JustifiedLabels]:
    entries = observation.entries
    for key in keys:
        held = observation.held[key]
        if not isinstance(observation.works.get(key), Removing):  # its files may disappear at any moment
            yield _justified_by(observation, key, held, entries.get(key))


def _justified_by(observation: Observation, key: Key, held: HeldSnapshot, entry: Entry | None) -> JustifiedLabels:
    ready, snapshot = ready_label(key[0]), snapshot_label(*key)
    both = frozenset({ready, snapshot})
    if entry is None:
        undecided = not observation.synced
        return JustifiedLabels(kept=both) if undecided or not held.damaged else JustifiedLabels()
    if is_on_pvc(entry):
        return JustifiedLabels()
    intact = observation.is_intact(key, entry.manifest)
    match entry.state:
        case EntryState.PRESENT:
            if not held.damaged:  # a snapshot of another manifest is intact too and keeps its labels until replaced
                return JustifiedLabels(wanted=both) if intact else JustifiedLabels(kept=both)
            return _kept_for_repair(entry, both)
        case EntryState.DRAINING:
            only = frozenset({snapshot})
            return JustifiedLabels(wanted=only) if not held.damaged else _kept_for_repair(entry, only)
        case EntryState.ABSENT:
            return JustifiedLabels()
        case _:
            return JustifiedLabels(kept=both) if not held.damaged else _kept_for_repair(entry, both)


def _kept_for_repair(entry: Entry, labels: frozenset[str]) -> JustifiedLabels:
    """Keep the labels of a damaged snapshot that pods use.

    If the node restarted without them, pods whose selectors name them would be killed.
    """
    return JustifiedLabels(kept=labels) if entry.in_use else JustifiedLabels()
