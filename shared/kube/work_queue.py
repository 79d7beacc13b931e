"""Keys that need work: deduplicated, one worker per key, exponential backoff, and lanes that take turns."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.backoff import Backoff
from shared.fair_queue import FairQueue

K = TypeVar("K", bound=Hashable)


def _one_lane(_: object) -> Hashable:
    return ""


@dataclass(slots=True)
class WorkQueue(Generic[K]):
    """A queue of keys for one event loop; a key added while it is being handled is handled again afterwards.

    A key that is added while it waits after a failure is handled at once, so a handler that fails must not cause its
    own key to be added. `lane_of` assigns keys to lanes, which take turns.
    """

    on_error: Callable[[K, Exception, float], None]  # called with the key, its error, and the seconds until its retry
    backoff: Backoff = Backoff(first_s=0.1, cap_s=60)
    lane_of: Callable[[K], Hashable] = _one_lane
    _line: FairQueue[Hashable, K] = field(default_factory=FairQueue, init=False)
    _wanted: set[K] = field(default_factory=set, init=False)
    _in_hand: set[K] = field(default_factory=set, init=False)
    _failures: dict[K, int] = field(default_factory=dict, init=False)
    _later: dict[K, asyncio.TimerHandle] = field(default_factory=dict, init=False)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __len__(self) -> int:
        return len(self._line)

    def add(self, key: K) -> None:
        """Queue the key at once, or after its current run if it is being handled."""
        if timer := self._later.pop(key, None):
            timer.cancel()
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._in_hand:
            self._enqueue(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Queue the key in `delay_s` seconds; of several requests the earliest counts."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay_s
        if timer := self._later.get(key):
            if timer.when() <= when:
                return
            timer.cancel()
        if key not in self._wanted:
            self._later[key] = loop.call_at(when, self.add, key)

    async def serve(self, workers: int, handle: Callable[[K], Awaitable[float | None]]) -> None:
        """Hand out keys until cancelled; `handle` returns the seconds until it wants the key again, or None.

        Keys that are being handled or waiting are queued again when it ends, so that serving can resume without loss.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._work(handle))
        finally:
            for key in list(self._later):
                self.add(key)

    async def _work(self, handle: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._take()
            try:
                again_s = await handle(key)
            except asyncio.CancelledError:
                self.add(key)
                raise
            except Exception as error:  # noqa: BLE001 - one bad key must not stop the others
                self._retry(key, error)
            else:
                self._failures.pop(key, None)
                if again_s is not None:
                    self.add_after(key, again_s)
            finally:
                self._put_down(key)

    async def _take(self) -> K:
        while (key := self._line.pop()) is None:
            self._arrival.clear()
            await self._arrival.wait()
        self._wanted.discard(key)
        self._in_hand.add(key)
        return key

    def _put_down(self, key: K) -> None:
        self._in_hand.discard(key)
        if key in self._wanted:
            self._enqueue(key)

    def _retry(self, key: K, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = self.backoff.delay_s(failures)
        self.on_error(key, error, delay_s)
        self.add_after(key, delay_s)

    def _enqueue(self, key: K) -> None:
        self._line.push(self.lane_of(key), key)
        self._arrival.set()
