"""A read of the API server shared by all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Runs one read at a time; no caller gets an answer that started before its call.

    However many callers there are, at most two reads are outstanding: the running one, and one for all later callers.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the result of the next read, or raise its error."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_retrieve_exception)
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._read()


def _retrieve_exception(task: asyncio.Task[T]) -> None:
    """Keep asyncio from logging a failure that every caller has already received, or stopped waiting for."""
    if not task.cancelled():
        task.exception()
