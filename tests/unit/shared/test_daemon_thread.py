"""Blocking work on daemon threads, which the exit of the program does not wait for."""

import asyncio
import subprocess
import sys
import threading

import pytest

from shared.daemon_thread import run_in_daemon_thread

_STUCK = """
import asyncio, threading
from shared.daemon_thread import run_in_daemon_thread

async def main():
    begun = threading.Event()
    asyncio.create_task(run_in_daemon_thread(lambda: (begun.set(), threading.Event().wait())))
    await asyncio.sleep(0)
    begun.wait()

asyncio.run(main())
"""


async def test_the_result_or_exception_of_the_work_is_passed_on() -> None:
    def fail() -> None:
        raise ValueError("no")

    assert await run_in_daemon_thread(max, 3, 5) == 5
    with pytest.raises(ValueError, match="no"):
        await run_in_daemon_thread(fail)


async def test_a_cancelled_caller_does_not_stop_the_thread() -> None:
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait()
        done.set()

    waiting = asyncio.create_task(run_in_daemon_thread(work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await asyncio.to_thread(done.wait)


def test_a_thread_that_never_ends_does_not_keep_the_program_running() -> None:
    subprocess.run([sys.executable, "-c", _STUCK], check=True, timeout=60)  # noqa: S603 - our own code
