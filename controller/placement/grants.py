"""Which nodes may download now: at most `max_concurrent_nodes` of each group, across all models."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contender:
    """One node that belongs to limited groups.

    Attributes:
        wants: It has something left to download.
        holds: Its ModelNode grants something that is not complete.
        granted: It had a grant after the last run.
        lost: Its agent is away, or has made no progress for too long.
        awaited: A pod on it waits for something that is left to download.
        stalls: How often it recently lost its grant.
    """

    node: str
    groups: tuple[str, ...]
    wants: bool
    holds: bool
    granted: bool
    lost: bool
    awaited: bool = False
    priority: int = 0
    since: str = ""
    stalls: int = 0


def decide_grants(contenders: Iterable[Contender], limits: Mapping[str, int]) -> frozenset[str]:
    """Return the nodes that may download.

    Nodes that recently lost a grant come after those that did not, whatever their priority: otherwise a model that
    never arrives would hold the only grant forever. Nodes on which pods wait come before others. A slot becomes free
    only in the run after the grant was revoked, once the spec of the node shows it: the write may still be in flight.
    """
    nodes = list(contenders)
    kept = {c.node for c in nodes if (c.granted or c.holds) and c.wants and not c.lost}
    taken: Counter[str] = Counter()
    for c in nodes:
        if c.granted or c.holds:
            taken.update(c.groups)
    waiting = [c for c in nodes if c.wants and not (c.granted or c.holds or c.lost)]
    for c in sorted(waiting, key=lambda c: (c.stalls, not c.awaited, -c.priority, c.since, c.node)):
        if all(taken[g] < limits[g] for g in c.groups if limits.get(g)):
            kept.add(c.node)
            taken.update(c.groups)
    return frozenset(kept)
