"""Leader election that fails safe: work never outlives the lease."""

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.kube.backoff import Uniform

_RELEASES_A_RETRY = 4


class Lock(Protocol):
    """A lease that at most one candidate holds."""

    async def acquire(self) -> bool:
        """Take or renew it; False while another holds it; any exception means unknown."""

    async def release(self) -> None:
        """Give it up; may raise."""


def _ignore(_: Exception) -> None:
    """Say nothing."""


@dataclass(slots=True)
class Elector:
    """Campaign, then work while the lease lasts; `deadline_s` must stay below the lease.

    However it ends, the work has ended before the lease is given back, and no attempt to take it is still under way.
    """

    lock: Lock
    work: Callable[[], Coroutine[Any, Any, None]]
    deadline_s: float = 10
    retry_s: float = 2
    on_trouble: Callable[[Exception], None] = _ignore  # the lock failed; it is tried again in `retry_s`
    uniform: Uniform = random.uniform
    _until: float = field(default=-math.inf, init=False)
    _attempt: "asyncio.Task[bool | None] | None" = field(default=None, init=False)

    @property
    def leading(self) -> bool:
        """Whether a write is still ours to make; ask before each, a blocked loop may have slept too long."""
        return asyncio.get_running_loop().time() < self._until

    async def run(self) -> None:
        """Return when leadership was lost or the work ended; cancellation gives the lease back.

        An error of the work comes out in an ExceptionGroup.
        """
        try:
            await self._campaign()
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(self.work())
                renewal = tasks.create_task(self._renew())
                await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
                work.cancel()
                renewal.cancel()
        finally:
            await _to_the_end(asyncio.create_task(self._give_back()))

    async def _campaign(self) -> None:
        """Return once the lease is ours."""
        while True:
            if await self._try():
                return
            await asyncio.sleep(self._pause_s())

    async def _renew(self) -> None:
        """Return once another holds the lease, or it could not be renewed in time."""
        loop = asyncio.get_running_loop()
        while True:
            left_s, pause_s = self._until - loop.time(), self._pause_s()
            if pause_s >= left_s:  # too late for another attempt
                await asyncio.sleep(left_s)
                return
            await asyncio.sleep(pause_s)
            if not self.leading or await self._try() is False:
                return

    async def _try(self) -> bool | None:
        """Return True for ours, False for another's, None when no one can tell."""
        began = asyncio.get_running_loop().time()  # the lease counts from no later than the request
        self._attempt = asyncio.create_task(self._acquire(self._attempt_end(began)))
        ours = await asyncio.shield(self._attempt)  # a write that was cut short may still take the lease
        if ours is not None:
            self._until = began + self.deadline_s if ours else -math.inf
        return ours

    async def _acquire(self, end: float) -> bool | None:
        try:
            async with asyncio.timeout_at(end):
                return await self.lock.acquire()
        except Exception as error:  # noqa: BLE001 - an unreachable API server is a lost race, never a crash
            self.on_trouble(error)
            return None

    def _attempt_end(self, began: float) -> float:
        """Half the deadline, so that one hung connection leaves time for a second attempt."""
        end = began + self.deadline_s / 2
        return min(end, self._until) if self.leading else end

    def _pause_s(self) -> float:
        return self.retry_s * self.uniform(1.0, 1.2)

    async def _give_back(self) -> None:
        """Release the lease: again and again while it would be ours anyway, once where it may be another's by now."""
        loop = asyncio.get_running_loop()
        until, self._until = self._until, -math.inf
        if self._attempt is not None:
            await asyncio.wait({self._attempt})
        end = max(until, loop.time() + self.retry_s)
        while not await self._release(end):
            if loop.time() + self._pause_s() / _RELEASES_A_RETRY >= end:
                return  # then it lapses by itself
            await asyncio.sleep(self._pause_s() / _RELEASES_A_RETRY)

    async def _release(self, end: float) -> bool:
        try:
            async with asyncio.timeout_at(end):
                await self.lock.release()
        except Exception as error:  # noqa: BLE001 - an unreachable API server must not keep the program from ending
            self.on_trouble(error)
            return False
        return True


async def _to_the_end(task: "asyncio.Task[None]") -> None:
    """Wait for a task, however often the wait is cancelled, and pass the cancellation on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
