"""Reads that many callers request at the same time."""

import asyncio

import pytest

from controller.state.shared_read import SharedRead


class Counter:
    """Returns the number of the read once the test releases it."""

    def __init__(self) -> None:
        self.begun, self.go, self.error = 0, asyncio.Event(), False

    async def read(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        if self.error:
            raise OSError(number)
        return number


async def until_begun(counter: Counter, count: int) -> None:
    async with asyncio.timeout(60):
        while counter.begun < count:  # noqa: ASYNC110 - counts steps of the loop
            await asyncio.sleep(0)


async def test_concurrent_callers_share_one_read_that_began_after_they_asked() -> None:
    counter = Counter()
    shared = SharedRead(counter.read)
    first = asyncio.create_task(shared.get())
    await until_begun(counter, 1)
    later = [asyncio.create_task(shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    counter.go.set()
    assert await first == 1
    assert set(await asyncio.gather(*later)) == {2}, "the first read had begun before they asked"
    assert await shared.get() == 3


async def test_a_failure_is_reported_to_all_callers_and_forgotten() -> None:
    counter = Counter()
    shared = SharedRead(counter.read)
    counter.error = True
    counter.go.set()
    reported = await asyncio.gather(*(shared.get() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in reported] == [OSError] * 3
    counter.error = False
    assert await shared.get() == 2


async def test_a_cancelled_caller_does_not_cancel_the_read_for_the_others() -> None:
    counter = Counter()
    shared = SharedRead(counter.read)
    gone, stays = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await until_begun(counter, 1)
    gone.cancel()
    counter.go.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await stays == 1
