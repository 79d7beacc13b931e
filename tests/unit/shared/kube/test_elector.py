import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from shared.kube.elector import Elector
from shared.kube.memory_lock import LockRecord, MemoryLock

pytestmark = pytest.mark.looptime
LEASE_S, DEADLINE_S, RETRY_S = 15.0, 10.0, 2.0


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class FailingLock:
    """A lock in memory that fails during a given time, in one of the ways in which networks fail."""

    lock: MemoryLock
    from_s: float
    how: str
    until_s: float = 1e9

    async def acquire(self) -> bool:
        await self._fail()
        return await self.lock.acquire()

    async def release(self) -> None:
        await self._fail()
        await self.lock.release()

    async def _fail(self) -> None:
        if self.from_s <= now() < self.until_s:
            if self.how == "refused":
                raise ConnectionRefusedError
            await asyncio.sleep(3600)


def lock(record: LockRecord, identity: str) -> MemoryLock:
    return MemoryLock(record, identity, LEASE_S, now)


def ticking(ticks: list[float], every_s: float = 0.5) -> Callable[[], Coroutine[Any, Any, None]]:
    async def work() -> None:
        while True:
            ticks.append(now())
            await asyncio.sleep(every_s)

    return work


async def test_leads_while_the_lease_is_renewed_and_releases_it_when_cancelled() -> None:
    record, ticks = LockRecord(), list[float]()
    elector = Elector(lock(record, "a"), ticking(ticks), DEADLINE_S, RETRY_S)
    began = now()
    running = asyncio.create_task(elector.run())
    await asyncio.sleep(100)
    seen = [(elector.leading, record.holder)]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    seen.append((elector.leading, record.holder))
    assert ticks[-1] - began > 99
    assert seen == [(True, "a"), (False, "")]


async def test_a_standby_takes_over_within_one_retry_after_the_leader_ends() -> None:
    record, ticks = LockRecord(), list[float]()

    async def short() -> None:
        await asyncio.sleep(5)

    began = now()
    first = asyncio.create_task(Elector(lock(record, "a"), short, DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(1)
    second = asyncio.create_task(Elector(lock(record, "b"), ticking(ticks), DEADLINE_S, RETRY_S).run())
    await first
    await asyncio.sleep(5)
    assert 5 <= ticks[0] - began <= 5 + RETRY_S * 1.2
    second.cancel()


@pytest.mark.parametrize("seed", range(10))  # the intervals determine how close to the deadline the last attempt begins
@pytest.mark.parametrize("how", ["refused", "hangs"])
async def test_a_leader_cut_off_from_the_lock_stops_working_within_the_deadline(how: str, seed: int) -> None:
    record, ticks, troubles = LockRecord(), list[float](), list[str]()
    cut_at = now() + 30
    elector = Elector(
        FailingLock(lock(record, "a"), cut_at, how),
        ticking(ticks),
        DEADLINE_S,
        RETRY_S,
        on_error=lambda error: troubles.append(type(error).__name__),
        uniform=random.Random(seed).uniform,
    )
    await elector.run()
    assert cut_at < ticks[-1] <= cut_at + DEADLINE_S
    assert now() <= cut_at + DEADLINE_S + RETRY_S
    assert troubles
    assert not elector.leading


async def test_one_hung_attempt_does_not_lose_the_lease() -> None:
    record, ticks = LockRecord(), list[float]()
    began = now()
    flaky = FailingLock(lock(record, "a"), began + 30, "hangs", until_s=began + 34)
    running = asyncio.create_task(Elector(flaky, ticking(ticks), DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(100)
    assert not running.done()
    assert max(b - a for a, b in pairwise(ticks)) < 1
    running.cancel()


async def test_another_holder_ends_the_work_at_once() -> None:
    record, ticks = LockRecord(), list[float]()
    running = asyncio.create_task(Elector(lock(record, "a"), ticking(ticks), DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(20)
    record.holder, record.until = "b", now() + 1000
    stolen_at = now()
    await running
    assert ticks[-1] - stolen_at <= RETRY_S * 1.2
    assert record.holder == "b"


async def test_the_error_of_the_work_is_raised_and_the_lease_released() -> None:
    record = LockRecord()

    async def fail() -> None:
        await asyncio.sleep(3)
        raise ValueError("a bug")

    with pytest.raises(ExceptionGroup) as raised:
        await Elector(lock(record, "a"), fail, DEADLINE_S, RETRY_S).run()
    assert [type(error) for error in raised.value.exceptions] == [ValueError]
    assert record.holder == ""


@dataclass
class SlowLock:
    """A lock whose answers take `takes_s`, and whose first `failures` releases fail."""

    lock: MemoryLock
    takes_s: float
    failures: int = 0

    async def acquire(self) -> bool:
        """Acquire as a server would: even if the caller no longer waits for the response."""
        return await asyncio.shield(asyncio.create_task(self._acquire()))

    async def _acquire(self) -> bool:
        await asyncio.sleep(self.takes_s)
        return await self.lock.acquire()

    async def release(self) -> None:
        await asyncio.sleep(self.takes_s)
        if self.failures:
            self.failures -= 1
            raise ConnectionResetError
        await self.lock.release()


async def ended(running: "asyncio.Task[None]", cancels: int = 1) -> None:
    """Cancel a task as an ending program does, this many times."""
    for _ in range(cancels):
        running.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_candidate_that_ends_while_acquiring_the_lease_releases_it() -> None:
    record, ticks = LockRecord(), list[float]()
    running = asyncio.create_task(Elector(SlowLock(lock(record, "a"), 1.0), ticking(ticks), DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(0.5)
    await ended(running)
    await asyncio.sleep(5)
    assert (record.holder, ticks) == ("", [])


@pytest.mark.parametrize("cancels", [1, 3])
@pytest.mark.parametrize("failures", [0, 5])
async def test_a_leader_that_ends_releases_the_lease_whatever_happens(cancels: int, failures: int) -> None:
    record, ticks = LockRecord(), list[float]()
    slow = SlowLock(lock(record, "a"), 0.3, failures)
    running = asyncio.create_task(Elector(slow, ticking(ticks), DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(30)
    assert record.holder == "a"
    asked_at = now()
    await ended(running, cancels)
    assert record.holder == ""
    assert now() - asked_at < DEADLINE_S


async def test_the_lease_is_released_after_the_work_has_ended() -> None:
    record, holders = LockRecord(), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(3)
            holders.append(record.holder)

    running = asyncio.create_task(Elector(lock(record, "a"), work, DEADLINE_S, RETRY_S).run())
    await asyncio.sleep(5)
    await ended(running)
    assert (holders, record.holder) == (["a"], "")


async def test_a_hanging_lock_does_not_keep_the_program_running() -> None:
    record, ticks = LockRecord(), list[float]()
    elector = Elector(FailingLock(lock(record, "a"), now() + 20, "hangs"), ticking(ticks), DEADLINE_S, RETRY_S)
    running = asyncio.create_task(elector.run())
    await asyncio.sleep(21)
    asked_at = now()
    await ended(running)
    assert now() - asked_at <= DEADLINE_S + RETRY_S


Cut = tuple[float, float, str]  # from, for how long, how


@pytest.mark.parametrize(
    "cuts",
    [
        [(20, 30, "refused")],
        [(20, 30, "hangs"), (20, 30, "hangs")],
        [(20, 5, "hangs"), (50, 40, "refused"), (55, 20, "hangs")],
        [(20, 60, "hangs"), (60, 60, "refused"), (100, 60, "hangs")],
    ],
)
async def test_two_candidates_never_work_at_once_whoever_is_cut_off(cuts: list[Cut]) -> None:
    record, working, began = LockRecord(), set[int](), now()
    reigns: list[tuple[float, int]] = []

    async def candidate(number: int) -> None:
        from_s, for_s, how = cuts[number] if number < len(cuts) else (1e9, 0, "")
        broken = FailingLock(lock(record, str(number)), began + from_s, how, began + from_s + for_s)

        async def work() -> None:
            working.add(number)
            try:
                while True:
                    assert working == {number}
                    if elector.leading:
                        reigns.append((now(), number))
                    await asyncio.sleep(0.9)
            finally:
                working.discard(number)

        while True:
            elector = Elector(broken, work, DEADLINE_S, RETRY_S)
            await elector.run()

    tasks = [asyncio.create_task(candidate(number)) for number in range(3)]
    await asyncio.sleep(200)
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert reigns[-1][0] - began > 198
