"""Keys that need work: deduplicated, one worker per key, exponential backoff, and flows that take turns."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Generic, TypeVar

from shared.backoff import Backoff
from shared.fair_queue import FairQueue
from shared.kube.errors import Busy

K = TypeVar("K", bound=Hashable)
_LONGEST_ASKED_S = 120.0  # even if a server asks for more


def _same_flow(_: object) -> Hashable:
    return ""


@dataclass(slots=True)
class WorkQueue(Generic[K]):
    """A queue of keys for one event loop; a key added while it is being handled is handled again afterwards.

    A key that is added while it waits after a failure is handled at once, so a handler that fails must not cause its
    own key to be added. `flow_of` assigns keys to flows, which take turns.
    """

    on_error: Callable[[K, Exception, float], None]  # called with the key, its error, and the seconds until its retry
    backoff: Backoff = Backoff(first_s=0.1, cap_s=60)
    flow_of: Callable[[K], Hashable] = _same_flow
    is_open: bool = True  # if not, keys are dropped, because nobody would ever take them
    _queue: FairQueue[Hashable, K] = field(default_factory=FairQueue, init=False)
    _dirty: set[K] = field(default_factory=set, init=False)
    _processing: set[K] = field(default_factory=set, init=False)
    _failures: dict[K, int] = field(default_factory=dict, init=False)
    _timers: dict[K, asyncio.TimerHandle] = field(default_factory=dict, init=False)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __len__(self) -> int:
        return len(self._queue)

    def open(self) -> None:
        """Accept keys from now on."""
        self.is_open = True

    def close(self) -> None:
        """Drop all keys, and accept no others until it is opened again; call it when nothing is served."""
        self.is_open = False
        for timer in self._timers.values():
            timer.cancel()
        self._queue = FairQueue()
        for keys in (self._dirty, self._failures, self._timers):
            keys.clear()

    def add(self, key: K) -> None:
        """Queue the key at once, or after its current run if it is being handled."""
        if not self.is_open:
            return
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Queue the key in `delay_s` seconds; if there are several requests, the earliest wins."""
        if not self.is_open:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay_s
        if timer := self._timers.get(key):
            if timer.when() <= when:
                return
            timer.cancel()
        if key not in self._dirty:
            self._timers[key] = loop.call_at(when, self.add, key)

    async def serve(self, workers: int, handle: Callable[[K], Awaitable[float | None]]) -> None:
        """Hand out keys until cancelled; `handle` returns the seconds until it wants the key again, or None."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(self._run_worker(handle))

    async def _run_worker(self, handle: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._next_key()
            try:
                requeue_after_s = await handle(key)
            except Exception as error:  # noqa: BLE001 - one bad key must not stop the others
                self._retry(key, error)
            else:
                self._failures.pop(key, None)
                if requeue_after_s is not None:
                    self.add_after(key, requeue_after_s)
            finally:
                self._done(key)
            await asyncio.sleep(0)  # a handler that never waits must not starve the others

    async def _next_key(self) -> K:
        while (key := self._queue.pop()) is None:
            self._arrival.clear()
            await self._arrival.wait()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def _done(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._enqueue(key)

    def _retry(self, key: K, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = self.backoff.delay_s(failures, _asked_s(error))
        self.on_error(key, error, delay_s)
        self.add_after(key, delay_s)

    def _enqueue(self, key: K) -> None:
        self._queue.push(self.flow_of(key), key)
        self._arrival.set()


def _asked_s(error: Exception) -> float:
    """Return for how long an overloaded API server asks to be left alone; the time in a 503 is a guess."""
    if isinstance(error, Busy) and error.code == HTTPStatus.TOO_MANY_REQUESTS:
        return min(error.after_s or 0.0, _LONGEST_ASKED_S)
    return 0.0
