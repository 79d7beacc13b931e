"""Blocking work that must not hold up the end of the program."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run_aside(work: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
    """Return what the work returns, done in a thread of its own that dies with the program.

    A pool's threads are waited for at the end, and a source that keeps silent holds one for minutes. A caller that is
    cancelled leaves the thread behind.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # it is the work's result where there was no error

    def run() -> None:
        result, error = None, None
        try:
            result = work(*arguments)
        except Exception as caught:  # noqa: BLE001 - it comes out where the work was asked for
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await done
