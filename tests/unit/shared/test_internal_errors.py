import asyncio

import pytest
import structlog

from shared.internal_errors import InternalErrors, keep_running


class Loop:
    """A loop that fails a few times, and then keeps running."""

    def __init__(self, breaks: int) -> None:
        self.breaks, self.begun, self.running = breaks, 0, asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        if self.begun <= self.breaks:
            raise KeyError(("llama", "r1"))
        self.running.set()
        await asyncio.Event().wait()


async def test_a_failing_loop_is_restarted_with_growing_delays_and_reported() -> None:
    errors, loop, pauses = InternalErrors(), Loop(3), list[float]()

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(keep_running("scanner", loop.run, errors, sleep))
        await loop.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert loop.begun == 4
    assert [0.5 <= pauses[0] <= 1, 1 <= pauses[1] <= 2, 2 <= pauses[2] <= 4] == [True] * 3
    assert errors.counts == {"scanner": 3}
    assert errors.summary() == "internal errors since the start: 3, the last: KeyError in scanner; the log has more"
    assert [(line["event"], line["part"]) for line in logs] == [("internal_error", "scanner")] * 3


async def test_an_exception_group_restarts_a_loop_and_counts_as_one_error() -> None:
    errors, begun = InternalErrors(), 0

    async def lead() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_break())

    await keep_running("election", lead, errors, lambda _: asyncio.sleep(0))
    assert (begun, errors.counts) == (2, {"election": 1})


def test_the_summary_is_empty_without_errors() -> None:
    assert not InternalErrors().summary()


async def _break() -> None:
    raise TypeError
