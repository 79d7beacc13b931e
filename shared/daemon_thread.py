"""Runs blocking work on a thread that dies with the program.

The threads of a pool are joined at exit, and a silent server can hold one for minutes.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def start_daemon_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Run work on a daemon thread; its result or exception is in the Future, which cannot be cancelled."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


async def run_in_daemon_thread(work: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
    """Return the result of the work; cancelling the caller leaves the thread running."""
    return await asyncio.wrap_future(start_daemon_thread(partial(work, *arguments), "larder-work"))
