"""Group commit: changes that arrive for a key during a commit of that key are batched into its next commit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

C = TypeVar("C")  # a change
T = TypeVar("T")  # its outcome


@dataclass(eq=False, slots=True)
class _Waiting(Generic[C, T]):
    change: C
    outcomes: list[T | Exception] = field(default_factory=list)  # one, once it is committed

    @property
    def is_committed(self) -> bool:
        return bool(self.outcomes)


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Queue(Generic[C, T]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Waiting[C, T]] = field(default_factory=list)


class GroupCommit(Generic[C, T]):
    """Commits changes, one group per key at a time, in the order in which they were submitted.

    The caller with the oldest change commits the group, so no separate task can end before its callers.

    Args:
        commit: Called with a key and its changes; returns one outcome or exception per change, in order, or raises.
        largest: The most changes in a group.

    """

    def __init__(self, commit: Callable[[str, Sequence[C]], Awaitable[Sequence[T | Exception]]], largest: int) -> None:
        self._commit, self._largest = commit, largest
        self._queues: WeakValueDictionary[str, _Queue[C, T]] = WeakValueDictionary()

    def is_busy(self, key: str) -> bool:
        """Return whether a new change would have to wait."""
        queue = self._queues.get(key)
        return queue is not None and bool(queue.waiting)

    async def submit(self, key: str, change: C) -> T:
        """Return the outcome of a change once it is committed. Raises what `commit` returned or raised for it."""
        queue = self._queues.setdefault(key, _Queue())
        mine: _Waiting[C, T] = _Waiting(change)
        queue.waiting.append(mine)
        try:
            async with queue.lock:
                while not mine.is_committed:
                    await self._commit_oldest(key, queue)
        finally:
            if mine in queue.waiting:
                queue.waiting.remove(mine)
        outcome = mine.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _commit_oldest(self, key: str, queue: _Queue[C, T]) -> None:
        """Commit the oldest group. If cancelled, its changes stay queued for the next caller."""
        group = list(islice(queue.waiting, self._largest))
        try:
            outcomes: Sequence[T | Exception] = await self._commit(key, [each.change for each in group])
        except Exception as error:  # noqa: BLE001 - it is raised again in every caller
            outcomes = [error] * len(group)
        for each, outcome in zip(group, outcomes, strict=True):
            each.outcomes.append(outcome)
        queue.waiting = [each for each in queue.waiting if not each.is_committed]
