"""Scorers: whether a request fits, and the share of the resource then in use. Plain functions of numbers.

`scorer` in NodeInfo and ContainerInfo selects one by number.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple, Protocol

DEFAULT, LEFTOVER, ENUM = range(3)


class ScoredUse(NamedTuple):
    """The use of a resource after requests; the score is the share in use, from 0.0 to 1.0."""

    fits: bool
    score: float
    used_by_pod: int
    used_by_node: int


class Scorer(Protocol):
    """Scores a resource after requests of one container; `used_by_node` includes `used_by_pod`."""

    def __call__(
        self, allocatable: int, used_by_pod: int, used_by_node: int, requests: Sequence[int], *, init: bool
    ) -> ScoredUse:
        """Return whether the requests fit, and the use after them; `init` means that an init container makes them."""
        ...


def leftover(
    allocatable: int, used_by_pod: int, used_by_node: int, requests: Sequence[int], *, init: bool
) -> ScoredUse:
    """Score a counted resource: requests add up, and an init container reuses what its pod's containers use.

    A pod that uses 3 of 8, on a node with 5 used, and asks for 1 more:

    >>> leftover(8, 3, 5, [1], init=False)
    ScoredUse(fits=True, score=0.75, used_by_pod=4, used_by_node=6)
    >>> leftover(8, 3, 5, [1], init=True)
    ScoredUse(fits=True, score=0.625, used_by_pod=3, used_by_node=5)
    """
    requested = sum(requests)
    by_pod = max(used_by_pod, requested) if init else used_by_pod + requested
    by_node = used_by_node + by_pod - used_by_pod
    score = min(by_node / allocatable, 1.0) if allocatable else 0.0
    return ScoredUse(by_node <= allocatable, score, by_pod, by_node)


def enum(
    allocatable: int,
    used_by_pod: int,
    used_by_node: int,  # noqa: ARG001 - required by the Scorer protocol
    requests: Sequence[int],
    *,
    init: bool,  # noqa: ARG001 - required by the Scorer protocol
) -> ScoredUse:
    """Score a bit mask, such as the types that a device can be: one of the requested bits is enough.

    Pods do not use it up, so it does not count against the node.

    >>> enum(0b0011, 0, 0, [0b0110], init=False)
    ScoredUse(fits=True, score=0.5, used_by_pod=2, used_by_node=0)
    """
    requested = reduce(or_, requests, 0)
    used = allocatable & (used_by_pod | requested)
    score = used.bit_count() / allocatable.bit_count() if allocatable else 0.0
    return ScoredUse(not requested or allocatable & requested != 0, score, used, 0)


def is_enum(resource: str) -> bool:
    """Return whether the name of a resource marks a bit mask: its last element begins with `enum`."""
    return resource.rpartition("/")[2].lower().startswith("enum")


def scorer_of(resource: str, number: int) -> Scorer:
    """Return the scorer that LEFTOVER or ENUM selects; for any other number, the name of the resource decides."""
    if number == LEFTOVER:
        return leftover
    if number == ENUM or is_enum(resource):
        return enum
    return leftover
