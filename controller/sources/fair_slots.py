"""Slots for slow work outside the queue, shared fairly: no namespace can take all slots or ask without limit."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from controller.sources.rate_limits import KeyedRateLimiter, Rate
from shared.fair_queue import FairQueue

_MINUTE_S = 60
_Waiter = tuple[str, asyncio.Future[None]]


@dataclass(slots=True)
class FairSlots:
    """Up to `most` concurrent pieces of work; a namespace may start another while it holds fewer slots than are free.

    With 6 slots a single namespace gets 3, a second one 2, and one is left for a third. `per_minute` limits how much
    one namespace may start (0: no limit); cluster-scoped models, of namespace "", are not limited.
    """

    most: int
    clock: Callable[[], float]
    per_minute: int = 0
    _waiting: FairQueue[str, _Waiter] = field(default_factory=FairQueue, init=False)
    _held: Counter[str] = field(default_factory=Counter, init=False)
    _limiter: KeyedRateLimiter | None = field(default=None, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.per_minute:
            self._limiter = KeyedRateLimiter(Rate(self.per_minute / _MINUTE_S, self.per_minute), self.clock)

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Hold a slot for a namespace, waiting until it gets one."""
        waiter = namespace, asyncio.get_running_loop().create_future()
        self._waiting.push(namespace, waiter)
        self._serve()
        try:
            await waiter[1]
        except asyncio.CancelledError:
            self._waiting.remove(namespace, waiter)
            if not waiter[1].cancelled():  # it was granted at the same moment
                self._give_back(namespace)
            raise
        try:
            yield
        finally:
            self._give_back(namespace)

    def wait_s(self, namespace: str) -> float:
        """Return how many seconds the rate limit alone would delay another piece of work of a namespace."""
        if self._limiter is None or not namespace:
            return 0.0
        return self._limiter.wait_s(namespace, self._waiting.waiting(namespace))

    def _give_back(self, namespace: str) -> None:
        self._held -= Counter([namespace])
        self._serve()

    def _serve(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (waiter := self._waiting.pop(self._may_begin)) is not None:
            namespace, granted = waiter
            if not granted.done():  # its task may just have been cancelled
                self._held[namespace] += 1
                granted.set_result(None)

    def _may_begin(self, namespace: str) -> bool:
        if self._held[namespace] >= self.most - self._held.total():
            return False
        wait_s = self._limiter.draw(namespace) if self._limiter is not None and namespace else 0.0
        if wait_s:
            self._serve_in(wait_s)
        return not wait_s

    def _serve_in(self, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() > loop.time() + wait_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(wait_s, self._serve)
