import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.backoff import Backoff
from shared.kube.errors import Busy
from shared.kube.work_queue import WorkQueue

pytestmark = pytest.mark.looptime  # waits take no time: the loop's clock jumps to the next timer
Handle = Callable[[str], Awaitable[float | None]]


def now() -> float:
    return asyncio.get_running_loop().time()


def no_error(key: str, error: Exception, _: float) -> None:
    raise AssertionError(f"{key} failed") from error


async def serve_for(queue: WorkQueue[str], seconds: float, handle: Handle, workers: int = 3) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await queue.serve(workers, handle)


async def test_a_key_added_twice_is_queued_once() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error)
    for key in ["a", "b", "a", "c", "b"] * 10:
        queue.add(key)
    assert len(queue) == 3


async def test_a_key_added_while_it_is_served_is_served_once_more_but_not_concurrently() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error)
    turns: list[tuple[float, float]] = []

    async def handle(key: str) -> None:
        began = now()
        for _ in range(5):
            queue.add(key)
        if len(turns) == 1:
            queue._dirty.discard(key)  # the last turn requests no other
        await asyncio.sleep(1)
        turns.append((began, now()))

    queue.add("a")
    await serve_for(queue, 10, handle)
    assert len(turns) == 2
    assert turns[0][1] <= turns[1][0]


async def test_different_keys_are_served_at_the_same_time_by_as_many_workers() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error)
    began: list[float] = []

    async def handle(_: str) -> None:
        began.append(now())
        await asyncio.sleep(1)

    for key in "abcd":
        queue.add(key)
    await serve_for(queue, 5, handle, workers=2)
    assert [round(at - began[0], 3) for at in began] == [0, 0, 1, 1]


async def test_a_failing_key_is_retried_with_growing_delays_and_others_continue() -> None:
    waits: list[float] = []
    queue: WorkQueue[str] = WorkQueue(lambda _key, _error, wait_s: waits.append(wait_s), Backoff(1, 8, lambda _, b: b))
    served: list[tuple[str, float]] = []

    async def handle(key: str) -> float | None:
        served.append((key, now()))
        if key == "bad":
            raise ValueError(key)
        return 5

    began = now()
    queue.add("bad")
    queue.add("good")
    await serve_for(queue, 32, handle)
    assert waits == [1, 2, 4, 8, 8, 8, 8]
    times = [round(at - began, 3) for key, at in served if key == "bad"]
    assert times == [0, 1, 3, 7, 15, 23, 31]
    assert len([key for key, _ in served if key == "good"]) == 7


async def test_a_success_clears_the_failures() -> None:
    waits: list[float] = []
    queue: WorkQueue[str] = WorkQueue(lambda _key, _error, wait_s: waits.append(wait_s), Backoff(1, 60, lambda _, b: b))
    turns = iter([False, False, True, False, True])

    async def handle(key: str) -> float | None:
        if not next(turns):
            raise ValueError(key)
        return 10

    queue.add("a")
    await serve_for(queue, 20, handle)
    assert waits == [1, 2, 1]


async def test_the_earliest_of_several_delayed_requests_counts() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error)
    served: list[float] = []

    async def handle(_: str) -> None:
        served.append(now())

    began = now()
    for delay_s in (5, 2, 9):
        queue.add_after("a", delay_s)
    await serve_for(queue, 20, handle)
    assert [round(at - began, 3) for at in served] == [2]


async def test_adding_a_delayed_key_serves_it_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error)
    served: list[float] = []

    async def handle(_: str) -> None:
        served.append(now())

    began = now()
    queue.add_after("a", 5)
    queue.add("a")
    await serve_for(queue, 20, handle)
    assert [round(at - began, 3) for at in served] == [0]


async def test_a_closed_queue_has_no_keys_and_takes_none_until_it_is_opened() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda *_: None)
    finished: list[str] = []

    async def hang(key: str) -> None:
        if key == "failed":
            raise ValueError(key)
        queue.add(key)
        await asyncio.sleep(3600)

    async def finish(key: str) -> None:
        finished.append(key)

    for key in ("failed", "in hand", "in line"):
        queue.add(key)
    queue.add_after("later", 1000)
    await serve_for(queue, 1, hang, workers=1)
    queue.close()
    for number in range(1000):
        queue.add(f"pod-{number}")
        queue.add_after(f"pod-{number}", 1)
    assert len(queue) == 0
    queue.open()
    queue.add("wanted")
    await serve_for(queue, 3600, finish)
    assert finished == ["wanted"]


steps = st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 3), st.booleans()), max_size=60)


@settings(deadline=None, max_examples=50)  # a busy machine is not a failure
@given(steps)
async def test_the_last_state_of_every_key_is_served_by_one_worker_at_a_time(
    plan: list[tuple[str, float, bool]],
) -> None:
    wanted: dict[str, int] = {}
    served: dict[str, int] = {}
    workers: Counter[str] = Counter()
    overlaps: list[str] = []
    fails = iter([fail for _, _, fail in plan])
    queue: WorkQueue[str] = WorkQueue(lambda *_: None, Backoff(0.1, 0.5))

    async def handle(key: str) -> None:
        overlaps.extend([key] * workers[key])
        workers[key] += 1
        state = wanted[key]  # read before the work, as a controller reads its cache
        try:
            await asyncio.sleep(1)
            if next(fails, False):
                raise ValueError(key)
            served[key] = state
        finally:
            workers[key] -= 1

    async def order() -> None:
        for number, (key, pause_s, _) in enumerate(plan):
            wanted[key] = number
            queue.add(key)
            await asyncio.sleep(pause_s)

    ordering = asyncio.create_task(order())
    await serve_for(queue, 1000, handle, workers=2)
    await ordering
    assert served == wanted
    assert not overlaps


async def test_waits_between_attempts_are_random() -> None:
    times: list[float] = []
    queue: WorkQueue[str] = WorkQueue(lambda *_: None, Backoff(1, 1))

    async def handle(key: str) -> None:
        times.append(now())
        raise ValueError(key)

    queue.add("a")
    await serve_for(queue, 30, handle)
    waits = [round(b - a, 6) for a, b in pairwise(times)]
    assert all(0.5 <= wait <= 1 for wait in waits)
    assert len(set(waits)) > 5


async def test_flows_are_served_in_turn() -> None:
    queue: WorkQueue[str] = WorkQueue(no_error, flow_of=lambda key: key.partition("/")[0])
    for i in range(2100):
        queue.add(f"team-a/{i}")
    queue.add("team-b/1")
    order = list[str]()

    async def handle(key: str) -> None:
        order.append(key)
        await asyncio.sleep(1)

    await serve_for(queue, 3, handle, workers=2)
    assert "team-b/1" in order[:2]
    assert order[0] == "team-a/0"


@pytest.mark.parametrize(
    ("error", "least_s", "most_s"),
    [
        (Busy("too many requests", 20, 429), 20, 25),
        (Busy("too many requests", 3600, 429), 120, 150),
        (Busy("too many requests", None, 429), 0, 0.1),
        (Busy("starting", 5, 503), 0, 0.1),
    ],
)
async def test_an_overloaded_server_is_not_asked_before_its_stated_time(
    error: Busy, least_s: float, most_s: float
) -> None:
    waits = list[float]()
    queue: WorkQueue[str] = WorkQueue(lambda _key, _error, wait_s: waits.append(wait_s))

    async def handle(_: str) -> None:
        raise error

    queue.add("a")
    await serve_for(queue, 0.01, handle)
    (wait_s,) = waits
    assert least_s <= wait_s <= most_s
