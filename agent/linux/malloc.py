"""Keeps free memory out of the C library, so that the agent is small again after a download.

By default each allocating thread gets its own arena and keeps what it freed there: 4 MB after a download.
"""

import asyncio
import ctypes
from collections.abc import Awaitable, Callable

_LIBC = ctypes.CDLL(None)
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h
_EVERY_S = 5.0


def use_one_arena() -> None:
    """Let all threads allocate from one arena; call before starting threads. Only glibc has several."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_ARENA_MAX, 1)


def release_memory() -> None:
    """Return free pages to the system; takes about a millisecond."""
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(ctypes.c_size_t(0))


async def release_memory_when_idle(
    running: Callable[[], int],
    ended: Callable[[], int],
    free: Callable[[], None] = release_memory,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Free memory once at start, and whenever work has ended and none is running; ends only by cancellation."""
    freed_after = -1
    while True:
        await sleep(_EVERY_S)
        if ended() != freed_after and not running():
            freed_after = ended()
            free()
