"""Which nodes may download now: at most `max_concurrent_nodes` of each group, all models together."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contender:
    """One node that belongs to limited groups.

    `wants`: it has something left to download; `holds`: its ModelNode says granted for something unfinished;
    `granted`: it was last told yes; `lost`: its agent is away or makes no progress.
    """

    node: str
    groups: tuple[str, ...]
    wants: bool
    holds: bool
    granted: bool
    lost: bool
    priority: int = 0
    since: str = ""


def decide_grants(contenders: Iterable[Contender], limits: Mapping[str, int]) -> frozenset[str]:
    """Return the nodes that may download; a slot is free again only when the old holder's spec says so."""
    nodes = list(contenders)
    kept = {c.node for c in nodes if c.granted and c.wants and not c.lost}
    taken: Counter[str] = Counter()
    for c in nodes:
        if c.node in kept or c.holds:
            taken.update(c.groups)
    waiting = [c for c in nodes if c.wants and not c.lost and c.node not in kept]
    for c in sorted(waiting, key=lambda c: (-c.priority, c.since, c.node)):
        if c.holds or all(taken[g] < limits[g] for g in c.groups if limits.get(g)):
            kept.add(c.node)
            if not c.holds:
                taken.update(c.groups)
    return frozenset(kept)
