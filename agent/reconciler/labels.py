"""The node labels that the disk and the ModelNode justify."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.reconciler.observation import HeldSnapshot, Key, Observation, Removing, is_claim
from shared.api.model_node import Entry, EntryState
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX, ready_label, snapshot_label

ON = "true"


@dataclass(frozen=True, slots=True)
class JustifiedLabels:
    """Labels that a snapshot on disk justifies: `wanted` are set, `kept` are left if already set."""

    wanted: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels the agent owns; model-cache-ready-x.org/y has its own prefix and belongs to others."""
    return {k: v for k, v in labels.items() if k.startswith(SNAPSHOT_PREFIX) or _is_ready_label(k)}


def _is_ready_label(key: str) -> bool:
    return key.startswith(READY_PREFIX) and "/" not in key


def label_changes(observation: Observation) -> dict[str, str | None]:
    """Return the patch that corrects the node's labels, removals first; empty if they are correct."""
    justified = list(_justified(observation, observation.held))
    wanted = frozenset[str]().union(*(j.wanted for j in justified))
    kept = wanted.union(*(j.kept for j in justified))
    drops = {k: None for k in sorted(observation.labels) if k not in kept}
    sets = {k: ON for k in sorted(wanted) if observation.labels.get(k) != ON}
    return {**drops, **sets}


def is_ready_by_another(observation: Observation, key: Key) -> bool:
    """Tell whether another revision of the model, listed or not, justifies its ready label."""
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
    if is_claim(entry):
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
