"""A queue with lanes that take turns, so that a lane with many items delays only itself."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

L = TypeVar("L", bound=Hashable)
T = TypeVar("T")


def _always(_: object) -> bool:
    return True


@dataclass(slots=True)
class FairQueue(Generic[L, T]):
    """First in, first out within a lane; the lane that was served last is served last again."""

    _lanes: OrderedDict[L, deque[T]] = field(default_factory=OrderedDict, init=False)
    _count: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._count

    def push(self, lane: L, item: T) -> None:
        """Add an item at the end of its lane."""
        self._lanes.setdefault(lane, deque()).append(item)
        self._count += 1

    def pop(self, may: Callable[[L], bool] = _always) -> T | None:
        """Take the first item of the next lane that `may` permits; None if there is none."""
        for lane in self._lanes:
            if may(lane):
                return self._take(lane)
        return None

    def _take(self, lane: L) -> T:
        items = self._lanes.pop(lane)
        item = items.popleft()
        if items:
            self._lanes[lane] = items
        self._count -= 1
        return item

    def remove(self, lane: L, item: T) -> bool:
        """Remove an item; return whether it was there."""
        items = self._lanes.get(lane, deque())
        if item not in items:
            return False
        items.remove(item)
        self._count -= 1
        if not items:
            del self._lanes[lane]
        return True

    def waiting(self, lane: L) -> int:
        """Return the number of items in a lane."""
        return len(self._lanes.get(lane, ()))
