"""Which lists of files an agent may hold in memory. A plain function of the lists that it holds."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.reconciler.observation import Key
from agent.store.list_size import ListSize
from shared.fair_shares import MAX_UPDATING, is_fair
from shared.names import namespace_of
from shared.quantity import format_bytes

_REPAIR_SHARE = 8  # repairs may exceed the capacity by one part in so many


@dataclass(frozen=True, slots=True)
class HeldLists:
    """The bytes of memory that lists of files take: those of complete snapshots and those of downloads."""

    capacity_bytes: int
    snapshots: Mapping[Key, int] = field(default_factory=dict)
    downloads: Mapping[Key, int] = field(default_factory=dict)


def why_refused(held: HeldLists, key: Key, size: ListSize) -> str:
    """Return why the list of a download may not be kept in memory, with numbers and a remedy; empty if it may.

    A namespace may use as much as it leaves free. Beyond that, it may update a few models at a time to revisions with
    lists no larger than before, because the old one goes once the new one is there. Repairs have some memory of their
    own, so that complete models stay usable on a full node.
    """
    downloads = {other: used for other, used in held.downloads.items() if other != key}
    total, capacity = sum(held.snapshots.values()) + sum(downloads.values()), held.capacity_bytes
    if key in held.snapshots:
        is_only_repair = downloads.keys().isdisjoint(held.snapshots)
        fits = is_only_repair or total + size.memory_bytes <= capacity + capacity // _REPAIR_SHARE
        return "" if fits else _refusal(size, "repairs of other models take the rest", capacity)
    namespace, used_bytes, models = namespace_of(key[0]), 0, Counter[str]()
    for lists in (held.snapshots, downloads):
        for (identity, _), used in lists.items():
            if namespace_of(identity) == namespace:
                used_bytes += used
                models[identity] += 1
    free = capacity - total - size.memory_bytes
    fits = is_fair(namespace, used_bytes + size.memory_bytes, free) or not used_bytes
    if free >= 0 and (fits or _is_update(held, key, size, models)):
        return ""
    owner = f"namespace {namespace}" if namespace else "cluster-scoped models"
    others = f"the lists of {owner} take {format_bytes(used_bytes)} (models: {len(models)})"
    left = format_bytes(max(0, capacity - total))
    why = f"only {left} are still free" if free < 0 else f"{left} are still free, but reserved for others"
    return _refusal(size, f"{others}, and {why}", capacity)


def _is_update(held: HeldLists, key: Key, size: ListSize, models: Mapping[str, int]) -> bool:
    """Return whether this replaces the only other revision of its model, and no more than a few others do the same."""
    before = [used for (identity, _), used in held.snapshots.items() if identity == key[0]]
    is_first = models.get(key[0]) == len(before) == 1
    return is_first and size.memory_bytes <= before[0] and sum(n > 1 for n in models.values()) < MAX_UPDATING


def _refusal(size: ListSize, others: str, capacity: int) -> str:
    return (
        f"the list of its {size.files} files takes {format_bytes(size.memory_bytes)} of the agent's memory; {others}; "
        f"the lists of all models on this node may take {format_bytes(capacity)}; remove models with many files from "
        "this node, or raise the agent's memory limit; this model is downloaded once there is room"
    )
