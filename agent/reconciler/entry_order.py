"""The order in which a node's entries are processed."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from agent.reconciler.observation import Downloading, FetchingManifest, Observation
from shared.api.model_node import Entry
from shared.names import namespace_of

_CLUSTER_SHARE = 4  # cluster-scoped models get this many turns for each turn of a namespace


def by_turn(
    observation: Observation, entries: Iterable[Entry], step: type[FetchingManifest | Downloading]
) -> list[Entry]:
    """Return the entries in the order in which they take the step: damaged ones first, then round-robin by namespace.

    Within a namespace, entries that a pod on the node waits for go first, then those of higher priority, then those
    requested earlier. Entries already at that step count as turns taken: if namespace `a` wants three entries, one of
    them in progress, and namespace `b` wants one, the order is b1, a2, a3.
    """
    queues: defaultdict[tuple[bool, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        queues[entry.key not in observation.held, namespace_of(entry.id)].append(entry)
    taken = Counter(namespace_of(key[0]) for key, work in observation.works.items() if isinstance(work, step))
    turns: list[tuple[bool, int, bool, tuple[int, str, tuple[str, str]], Entry]] = []
    for (missing, namespace), queue in queues.items():
        share = 1 if namespace else _CLUSTER_SHARE
        ordered = sorted(queue, key=lambda e: (not e.awaited, _rank(e)))
        waiting = (e for e in ordered if not isinstance(observation.works.get(e.key), step))
        turns += [(missing, (taken[namespace] + i) // share, not e.awaited, _rank(e), e) for i, e in enumerate(waiting)]
    return [entry for *_, entry in sorted(turns, key=lambda turn: turn[:4])]


def by_rank(observation: Observation, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries in the order in which they get space, regardless of namespace; evictions rely on it.

    Waiting pods make no difference: they do not give a model space that its priority would not give it.
    """
    return sorted(entries, key=lambda e: (e.key not in observation.held, *_rank(e)))


def _rank(entry: Entry) -> tuple[int, str, tuple[str, str]]:
    return -entry.priority, entry.since, entry.key
