"""The figures of a run of the queue: order, losses, repetitions and rate. No input or output."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.bench.claims.recorder import CreatedClaim

_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Leadership:
    """The claims that one leader created.

    Args:
        claims: How many.
        seconds: From the first to the last.
        per_second: How many per second, without the first burst.
    """

    claims: int
    seconds: float
    per_second: float


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The outcome of the requests.

    Args:
        lost: Claims that were requested and never came.
        twice: Claims that came more than once.
        out_of_order: Claims of a job that came before one of a lower index.
        leaderships: One for each leader.
        cpu_ms: CPU time for each claim by program, milliseconds.
    """

    lost: int
    twice: int
    out_of_order: int
    leaderships: tuple[Leadership, ...]
    cpu_ms: Mapping[str, float]

    def is_on_rate(self, qps: float) -> bool:
        """Return whether every leader kept to the rate within 5 %."""
        return all(abs(one.per_second - qps) <= _TOLERANCE * qps for one in self.leaderships)

    def is_good(self, qps: float) -> bool:
        """Return whether nothing was lost, repeated, out of order or off the rate."""
        return not (self.lost or self.twice or self.out_of_order) and self.is_on_rate(qps)


def queue_figures(
    wanted: int, burst: int, created: Sequence[CreatedClaim], kills_s: Sequence[float], cpu_ms: Mapping[str, float]
) -> QueueFigures:
    """Return the figures of a run whose leaders were killed at these moments.

    Args:
        wanted: Claims that were requested.
        burst: Claims that a new leader may create at once.
        created: What was created, in the order of etcd.
        kills_s: When leaders were killed, by the same clock.
        cpu_ms: CPU time for each claim by program.
    """
    names = Counter((claim.namespace, claim.name) for claim in created)
    return QueueFigures(
        lost=wanted - len(names),
        twice=sum(count > 1 for count in names.values()),
        out_of_order=_out_of_order(created),
        leaderships=tuple(_leadership(part, burst) for part in _parts(created, kills_s)),
        cpu_ms=cpu_ms,
    )


def _parts(created: Sequence[CreatedClaim], kills_s: Sequence[float]) -> list[list[CreatedClaim]]:
    """Return the claims of each leader: a killed one created all claims before its end."""
    edges = [0.0, *kills_s, float("inf")]
    return [[claim for claim in created if begin < claim.at_s <= end] for begin, end in pairwise(edges)]


def _leadership(part: Sequence[CreatedClaim], burst: int) -> Leadership:
    seconds = part[-1].at_s - part[0].at_s if part else 0.0
    return Leadership(len(part), seconds, max(0, len(part) - burst) / seconds if seconds else 0.0)


def _out_of_order(created: Sequence[CreatedClaim]) -> int:
    indexes = defaultdict[tuple[str, str], list[int]](list)
    for claim in created:
        stem, _, index = claim.name.rpartition("-")
        indexes[claim.namespace, stem].append(int(index))
    return sum(later < earlier for of_one in indexes.values() for earlier, later in pairwise(of_one))
