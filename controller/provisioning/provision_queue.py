"""The order in which volumes and claims are created. No input or output, no clock."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple


class Tier(IntEnum):
    """The position of a request in its flow."""

    RETRY = 0  # failed, and is tried again before any other
    NEW = 1
    TAIL = 2  # failed too often


class ProvisionOrder(NamedTuple):
    """The order of the requests of a flow; it survives a restart, unlike the order of arrival.

    Args:
        created: The creationTimestamp of the owner.
        owner: The name of the owner.
        number: Place among the requests of one owner.
    """

    created: str = ""
    owner: str = ""
    number: int = 0


class _Place(NamedTuple):
    tier: Tier
    order: ProvisionOrder
    arrival: int  # unique, so that keys are never compared
    key: Hashable


@dataclass(slots=True)
class ProvisionQueue:
    """Flows take turns; each flow is sorted by tier, order and arrival."""

    _flows: OrderedDict[Hashable, list[_Place]] = field(default_factory=OrderedDict, init=False)
    _places: dict[Hashable, tuple[Hashable, _Place]] = field(default_factory=dict, init=False)
    _longer: list[int] = field(default_factory=list, init=False)  # how many flows have more than 0, 1, 2 ... keys
    _arrivals: int = field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._places)

    def push(self, flow: Hashable, key: Hashable, order: ProvisionOrder, tier: Tier = Tier.NEW) -> None:
        """Add a key that is not in the queue."""
        self._arrivals += 1
        order = ProvisionOrder() if tier is Tier.TAIL else order  # behind the existing ones
        place = _Place(tier, order, self._arrivals, key)
        places = self._flows.setdefault(flow, [])
        insort(places, place)
        if len(places) > len(self._longer):
            self._longer.append(0)
        self._longer[len(places) - 1] += 1
        self._places[key] = flow, place

    def prefer(self, flow: Hashable) -> None:
        """Give a flow the next turn."""
        if flow in self._flows:
            self._flows.move_to_end(flow, last=False)

    def has(self, may: Callable[[Hashable], bool]) -> bool:
        """Return whether a flow that `may` permits has a key."""
        return any(may(flow) for flow in self._flows)

    def pop(self, may: Callable[[Hashable], bool]) -> Hashable | None:
        """Take the first key of the next flow that `may` permits; None if there is none."""
        flow = next((flow for flow in self._flows if may(flow)), None)
        if flow is None or not (places := self._flows.get(flow)):
            return None
        key = places[0].key
        self.remove(key)
        if flow in self._flows:
            self._flows.move_to_end(flow)
        return key

    def remove(self, key: Hashable) -> None:
        """Remove a key, if it is there."""
        if key not in self._places:
            return
        flow, place = self._places.pop(key)
        places = self._flows[flow]
        del places[bisect_left(places, place)]
        self._longer[len(places)] -= 1
        if not places:
            del self._flows[flow]

    def ahead_of(self, key: Hashable) -> int | None:
        """Return how many keys are popped before this one if none is added; None if it is not in the queue.

        Looks at the flows before that of the key, never at their keys.
        """
        if key not in self._places:
            return None
        flow, place = self._places[key]
        own = bisect_left(self._flows[flow], place)
        before = takewhile(lambda other: other != flow, self._flows)  # the flows that have one turn more
        turns = sum(self._longer[:own])
        return turns + sum(len(self._flows[other]) > own for other in before)


def ordinal_bound(position: int) -> int:
    """Return the next power of two, which changes at most eleven times on the way from place 2,000 to the head.

    An owner's status shows this instead of the position itself, which changes with every creation.
    """
    return 1 << max(0, position - 1).bit_length()


def queued_message(claim: str, position: int | None) -> str:
    """Return a message with a claim's approximate place in the queue; `position` is None before it is queued."""
    message = f"claim {claim} waits for its turn to be created"
    return message if position is None else f"{message}, among the first {ordinal_bound(position)} in the queue"
