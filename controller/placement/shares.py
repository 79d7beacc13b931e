"""Fair shares of a ModelNode's capacity among namespaces."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from shared.api.model_node import Entry
from shared.fair_shares import MAX_UPDATING, is_fair, weight_of
from shared.names import namespace_of
from shared.quantity import format_bytes

EntryKey = tuple[str, str]
_GROWTH_BYTES = 128  # an entry gains timestamps and marks after it was admitted
_MAX_SPEC_BYTES = 600 * 1024  # with a status of at most 384 KiB the object stays below 1 MiB


@dataclass(frozen=True, slots=True)
class ModelNodeCapacity:
    """The capacity of a ModelNode."""

    entries: int = 1000
    size_bytes: int = _MAX_SPEC_BYTES


@dataclass(slots=True)
class _Use:
    """The usage of one namespace, or of all."""

    entries: int = 0
    size_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        self.entries += 1
        self.size_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class Shares:
    """A capacity and its current usage."""

    capacity: ModelNodeCapacity
    total: _Use = field(default_factory=_Use)
    uses: defaultdict[str, _Use] = field(default_factory=lambda: defaultdict(_Use))

    def add(self, namespace: str, size_bytes: int) -> None:
        """Count an entry of a namespace."""
        self.total.add(size_bytes)
        self.uses[namespace].add(size_bytes)

    def admits(self, namespace: str, size_bytes: int) -> bool:
        """Return whether a namespace may add an entry: its usage must then not exceed what is left free."""
        use = self.uses[namespace]
        if not self.holds(size_bytes):
            return False
        free = self.capacity.entries - self.total.entries - 1
        free_bytes = self.capacity.size_bytes - self.total.size_bytes - size_bytes
        fits = is_fair(namespace, use.entries + 1, free) and is_fair(namespace, use.size_bytes + size_bytes, free_bytes)
        return fits or not use.entries

    def holds(self, size_bytes: int) -> bool:
        """Return whether there is room for one more entry of any namespace."""
        entries, total_bytes = self.total.entries + 1, self.total.size_bytes + size_bytes
        return entries <= self.capacity.entries and total_bytes <= self.capacity.size_bytes

    def refusal(self, namespace: str) -> str:
        """Return why a namespace may not add an entry, with numbers and a remedy."""
        use, capacity = self.uses[namespace], self.capacity
        owner = f"namespace {namespace} has" if namespace else "cluster-scoped models have"
        return (
            f"{owner} {use.entries} models on this node already, which take {format_bytes(use.size_bytes)} of its "
            f"ModelNode; it holds at most {capacity.entries} models and {format_bytes(capacity.size_bytes)}; "
            f"{capacity.entries - self.total.entries} models and "
            f"{format_bytes(capacity.size_bytes - self.total.size_bytes)} are still free, but "
            "reserved for others; delete models that this node does not need, or select fewer nodes for them; this "
            "model is placed once there is room"
        )


def size_of(entry: Entry) -> int:
    """Return the bytes to count for an entry."""
    return len(msgspec.json.encode(entry)) + _GROWTH_BYTES


def refuse_beyond_shares(
    listed: Iterable[Entry], wanted: Iterable[Entry], capacity: ModelNodeCapacity
) -> dict[EntryKey, str]:
    """Return the wanted entries that do not fit, each with the reason; listed entries keep their place.

    The namespace with the least usage is served first. Within a namespace the order is that of `wanted`. A namespace at
    its share can still update its models, a few at a time: the old revision goes once the new one is there.
    """
    shares, revisions = Shares(capacity), Counter[str]()
    for entry in listed:
        shares.add(namespace_of(entry.id), size_of(entry))
        revisions[entry.id] += 1
    updating = Counter(namespace_of(identity) for identity, count in revisions.items() if count > 1)
    flows: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in wanted:
        flows[namespace_of(entry.id)].append(entry)
    refused: dict[EntryKey, str] = {}
    queue = [(shares.uses[name].entries / weight_of(name), name, 0) for name in flows]
    heapq.heapify(queue)
    while queue:
        _, name, index = heapq.heappop(queue)
        entry = flows[name][index]
        size_bytes = size_of(entry)
        updates = entry.id in revisions and updating[name] < MAX_UPDATING and shares.holds(size_bytes)
        if updates or shares.admits(name, size_bytes):
            shares.add(name, size_bytes)
            updating[name] += entry.id in revisions
        else:
            refused[entry.key] = ""
        if index + 1 < len(flows[name]):
            heapq.heappush(queue, (shares.uses[name].entries / weight_of(name), name, index + 1))
    return {key: shares.refusal(namespace_of(key[0])) for key in refused}
