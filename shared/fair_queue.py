"""A queue with flows that take turns, so that a flow with many items delays only itself.

A flow holds the items of one tenant or one purpose, as in the API server's Priority and Fairness.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

F = TypeVar("F", bound=Hashable)
T = TypeVar("T")


def _always(_: object) -> bool:
    return True


@dataclass(slots=True)
class FairQueue(Generic[F, T]):
    """First in, first out within a flow; a flow that has been served goes behind all other flows."""

    _flows: OrderedDict[F, deque[T]] = field(default_factory=OrderedDict, init=False)
    _count: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._count

    def push(self, flow: F, item: T) -> None:
        """Add an item at the end of its flow."""
        self._flows.setdefault(flow, deque()).append(item)
        self._count += 1

    def pop(self, may: Callable[[F], bool] = _always) -> T | None:
        """Take the first item of the next flow that `may` permits; None if there is none."""
        for flow in self._flows:
            if may(flow):
                return self._take(flow)
        return None

    def _take(self, flow: F) -> T:
        items = self._flows.pop(flow)
        item = items.popleft()
        if items:
            self._flows[flow] = items
        self._count -= 1
        return item

    def remove(self, flow: F, item: T) -> bool:
        """Remove an item; return whether it was there."""
        items = self._flows.get(flow, deque())
        if item not in items:
            return False
        items.remove(item)
        self._count -= 1
        if not items:
            del self._flows[flow]
        return True

    def waiting(self, flow: F) -> int:
        """Return the number of items in a flow."""
        return len(self._flows.get(flow, ()))
