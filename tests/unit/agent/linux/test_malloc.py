import asyncio
import platform
import subprocess
import sys

import pytest

from agent.linux.malloc import release_memory_when_idle

THREADS = """
import ctypes, sys, threading
from agent.linux.malloc import use_one_arena
if sys.argv[1:]:
    use_one_arena()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)
def allocate():
    together.wait()
    libc.malloc(1000)
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_stats()
"""
OF_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one arena anyway")


def arenas(*arguments: str) -> int:
    """Return how many arenas a process with eight threads has at its end."""
    argv = [sys.executable, "-c", THREADS, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stderr.count("Arena ")  # noqa: S603 - our own text


@OF_GLIBC
def test_threads_share_one_arena() -> None:
    assert arenas("one") == 1 < arenas()


class Work:
    """Steps of time: how much runs and has ended at each; the last step cancels."""

    def __init__(self, *steps: tuple[int, int]) -> None:
        self.steps, self.now, self.freed_at = list(steps), -1, list[int]()

    async def sleep(self, _: float) -> None:
        self.now += 1
        if self.now == len(self.steps):
            raise asyncio.CancelledError

    async def run(self) -> list[int]:
        with pytest.raises(asyncio.CancelledError):
            await release_memory_when_idle(
                lambda: self.steps[self.now][0],
                lambda: self.steps[self.now][1],
                lambda: self.freed_at.append(self.now),
                self.sleep,
            )
        return self.freed_at


async def test_memory_is_released_once_at_start_and_once_after_the_last_concurrent_work() -> None:
    assert await Work((0, 0), (0, 0), (2, 0), (1, 1), (0, 2), (0, 2)).run() == [0, 4]


async def test_a_download_that_ran_between_two_checks_is_noticed() -> None:
    assert await Work((0, 0), (0, 1), (0, 1)).run() == [0, 1]
