"""Which namespace gets a slot for slow work, and when."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from controller.sources.fair_slots import FairSlots

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Work:
    """Work that ends when the test lets it, and the order in which it began."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots, self.began, self.end = slots, list[str](), asyncio.Event()
        self.tasks = list[asyncio.Task[None]]()

    def want(self, namespace: str, count: int = 1) -> None:
        self.tasks += [asyncio.create_task(self._do(namespace)) for _ in range(count)]

    async def _do(self, namespace: str) -> None:
        async with self.slots.slot(namespace):
            self.began.append(namespace)
            await self.end.wait()


async def test_sources_that_never_answer_delay_only_their_own_namespace() -> None:
    work = Work(FairSlots(6, now))
    for namespace in ("a", "b"):
        work.want(namespace, 100)
        await settled()
    work.want("c")
    await settled()
    assert work.began == ["a", "a", "a", "b", "b", "c"]
    work.end.set()
    await asyncio.gather(*work.tasks)
    assert len(work.began) == 201


async def test_a_new_namespace_is_served_before_the_backlog_of_another() -> None:
    slots = FairSlots(2, now)
    order = list[str]()

    async def do(namespace: str) -> None:
        async with slots.slot(namespace):
            order.append(namespace)
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(do("a")) for _ in range(50)]
    await settled()
    tasks.append(asyncio.create_task(do("b")))
    await asyncio.gather(*tasks)
    assert order.index("b") <= 1


async def test_a_namespace_starts_a_bounded_number_per_minute_without_delaying_others() -> None:
    slots, began = FairSlots(4, now, per_minute=60), list[tuple[str, float]]()

    async def do(namespace: str) -> None:
        async with slots.slot(namespace):
            began.append((namespace, now()))

    start = now()
    tasks = [asyncio.create_task(do(namespace)) for namespace in ["a"] * 180 + [""] * 180 + ["b"]]
    await settled()
    assert slots.wait_s("a") == pytest.approx(121, abs=1.5)
    assert (slots.wait_s("b"), slots.wait_s("")) == (0, 0)
    await asyncio.gather(*tasks)
    last = {namespace: at - start for namespace, at in began}
    assert last["a"] == pytest.approx(120, abs=1)
    assert last["b"] == last[""] == 0


async def test_an_abandoned_wait_uses_neither_a_slot_nor_the_rate() -> None:
    slots = FairSlots(2, now, per_minute=60)
    async with AsyncExitStack() as held:
        await held.enter_async_context(slots.slot("a"))
        waiting = [asyncio.create_task(slots.slot("a").__aenter__()) for _ in range(500)]
        await settled()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert slots.wait_s("a") == 0
    async with asyncio.timeout(1), slots.slot("a"):
        pass


async def test_a_slot_abandoned_when_it_is_granted_goes_to_the_next() -> None:
    slots, began = FairSlots(2, now), list[int]()

    async def do(number: int) -> None:
        async with slots.slot("a"):
            began.append(number)

    for cancel_first in (True, False):
        async with AsyncExitStack() as held:
            await held.enter_async_context(slots.slot("a"))
            tasks = [asyncio.create_task(do(number)) for number in range(3)]
            await settled()
            if cancel_first:
                tasks[0].cancel()
                await held.aclose()
            else:
                await held.aclose()
                tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert began == [1, 2]
        began.clear()
    assert not slots._held
