"""Fail-safe leader election: the work never outlives the lease."""

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.backoff import Uniform

_RELEASES_A_RETRY = 4


class Lock(Protocol):
    """A lease held by at most one candidate."""

    async def acquire(self) -> bool:
        """Acquire or renew the lease.

        Returns:
            True if this candidate holds it; False while another does.

        Raises:
            Exception: It is unknown whether the lease is held.
        """

    async def release(self) -> None:
        """Release the lease, if this candidate holds it.

        Raises:
            Exception: The lease may still be held; it expires on its own.
        """


def _ignore(_: Exception) -> None:
    """Ignore the failure."""


@dataclass(slots=True)
class Elector:
    """Campaigns, then runs the work while it holds the lease; `deadline_s` must be shorter than the lease.

    However `run` ends, the work has stopped before the lease is released, and no attempt to acquire it is pending.
    """

    lock: Lock
    work: Callable[[], Coroutine[Any, Any, None]]
    deadline_s: float = 10
    retry_s: float = 2
    on_error: Callable[[Exception], None] = _ignore  # called if the lock fails, which is retried after `retry_s`
    uniform: Uniform = random.uniform
    _until: float = field(default=-math.inf, init=False)
    _attempt: "asyncio.Task[bool | None] | None" = field(default=None, init=False)

    @property
    def leading(self) -> bool:
        """Whether writes are allowed. Check before each write, because a blocked event loop may miss the deadline."""
        return asyncio.get_running_loop().time() < self._until

    async def run(self) -> None:
        """Run until leadership is lost or the work ends; cancellation releases the lease.

        An exception of the work is raised in an ExceptionGroup.
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
            await _to_the_end(asyncio.create_task(self._release_lease()))

    async def _campaign(self) -> None:
        """Return once this candidate holds the lease."""
        while True:
            if await self._try():
                return
            await asyncio.sleep(self._pause_s())

    async def _renew(self) -> None:
        """Return once another candidate holds the lease, or it could not be renewed in time."""
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
        """Return True if we hold the lease, False if another does, None if unknown."""
        began = asyncio.get_running_loop().time()  # the lease counts from before the request
        self._attempt = asyncio.create_task(self._acquire(self._attempt_end(began)))
        ours = await asyncio.shield(self._attempt)  # a cancelled write may still acquire the lease
        if ours is not None:
            self._until = began + self.deadline_s if ours else -math.inf
        return ours

    async def _acquire(self, end: float) -> bool | None:
        try:
            async with asyncio.timeout_at(end):
                return await self.lock.acquire()
        except Exception as error:  # noqa: BLE001 - a failed attempt is repeated, and never ends the program
            self.on_error(error)
            return None

    def _attempt_end(self, began: float) -> float:
        """Return half the deadline, so that one hung connection leaves time for a second attempt."""
        end = began + self.deadline_s / 2
        return min(end, self._until) if self.leading else end

    def _pause_s(self) -> float:
        return self.retry_s * self.uniform(1.0, 1.2)

    async def _release_lease(self) -> None:
        """Release the lease: retry while it is still ours, try only once if another candidate may hold it by now."""
        loop = asyncio.get_running_loop()
        until, self._until = self._until, -math.inf
        if self._attempt is not None:
            await asyncio.wait({self._attempt})
        end = max(until, loop.time() + self.retry_s)
        while not await self._release(end):
            if loop.time() + self._pause_s() / _RELEASES_A_RETRY >= end:
                return  # it expires by itself
            await asyncio.sleep(self._pause_s() / _RELEASES_A_RETRY)

    async def _release(self, end: float) -> bool:
        try:
            async with asyncio.timeout_at(end):
                await self.lock.release()
        except Exception as error:  # noqa: BLE001 - an unreachable API server must not keep the program from ending
            self.on_error(error)
            return False
        return True


async def _to_the_end(task: "asyncio.Task[None]") -> None:
    """Wait for a task even if cancelled meanwhile, then re-raise the cancellation."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
