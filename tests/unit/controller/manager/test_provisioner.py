"""The queue that creates volumes and claims."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable

import pytest
from prometheus_client import CollectorRegistry

from controller.manager.provisioner import MAX_ATTEMPTS, Provisioner, ProvisionRequest
from shared.backoff import Backoff
from shared.kube.errors import KubeError, Refused, Unreachable

Create = Callable[[], Awaitable[None]]


class Rig:
    """A provisioner and what it did."""

    def __init__(self, rate: float = 1e6, burst: float = 1e6) -> None:
        self.created, self.failed, self.internal = list[Hashable](), list[tuple[Hashable, str]](), list[Hashable]()
        self.news, clock = asyncio.Event(), asyncio.get_running_loop().time
        internal = self.internal
        self.provisioner = Provisioner(
            rate,
            burst,
            clock,
            CollectorRegistry(),
            lambda key, _: internal.append(key),
            Backoff(first_s=0.01, cap_s=0.01),
        )
        self.task = asyncio.create_task(self.provisioner.run())

    def ask(self, key: Hashable, create: Create | None = None) -> None:
        def failed(error: KubeError) -> None:
            self.failed.append((key, str(error)))
            self.news.set()

        def created() -> None:
            self.created.append(key)
            self.news.set()

        self.provisioner.request(ProvisionRequest(key, create or _nothing, failed, created))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.news.clear()
                await self.news.wait()


async def _nothing() -> None:
    return


def raising(*errors: Exception) -> Create:
    """Return a creation that raises each of the errors once, then succeeds."""
    left = list(errors)

    async def create() -> None:
        if left:
            raise left.pop(0)

    return create


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_requests_are_served_in_order_of_arrival_and_each_once(rig: Rig) -> None:
    for key in ("a", "b", "a", "c"):
        rig.ask(key)
    await rig.until(lambda: len(rig.created) == 3)
    assert rig.created == ["a", "b", "c"]


async def test_a_request_that_fails_is_retried_before_any_other(rig: Rig) -> None:
    rig.ask("a", raising(Unreachable("down"), Unreachable("down")))
    rig.ask("b")
    await rig.until(lambda: len(rig.created) == 2)
    assert (rig.created, rig.failed) == (["a", "b"], [])


async def test_a_request_that_goes_on_failing_is_told_and_goes_to_the_tail(rig: Rig) -> None:
    rig.ask("a", raising(*(Unreachable("down") for _ in range(MAX_ATTEMPTS))))
    rig.ask("b")
    await rig.until(lambda: len(rig.created) == 2)
    assert (rig.created, rig.failed) == (["b", "a"], [("a", "down")])


async def test_a_request_that_is_refused_ends_and_holds_up_nobody(rig: Rig) -> None:
    rig.ask("a", raising(Refused("exceeded quota", 403)))
    rig.ask("b")
    await rig.until(lambda: rig.created == ["b"])
    assert rig.failed == [("a", "exceeded quota")]


async def test_an_internal_error_ends_one_request_and_no_other(rig: Rig) -> None:
    rig.ask("a", raising(TypeError("oops")))
    rig.ask("b")
    await rig.until(lambda: rig.created == ["b"])
    assert rig.internal == ["a"]
    assert rig.failed == [("a", "internal error: TypeError: oops")]


async def test_a_request_withdrawn_during_its_last_attempt_costs_the_others_nothing(rig: Rig) -> None:
    attempts = 0

    async def create() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == MAX_ATTEMPTS:
            rig.provisioner.withdraw("a")
        raise Unreachable("down")

    rig.ask("a", create)
    rig.ask("b")
    await rig.until(lambda: rig.created == ["b"])
    assert not rig.task.done()


async def test_a_request_made_again_while_the_first_is_served_is_served_too(rig: Rig) -> None:
    async def create() -> None:
        rig.provisioner.withdraw("a")
        rig.ask("a")

    rig.ask("a", create)
    await rig.until(lambda: rig.created == ["a", "a"])


@pytest.mark.looptime
async def test_the_rate_holds_after_the_burst() -> None:
    rig, loop = Rig(rate=5, burst=10), asyncio.get_running_loop()
    begun = loop.time()
    for number in range(20):
        rig.ask(number)
    await rig.until(lambda: len(rig.created) == 20)
    assert loop.time() - begun == pytest.approx(2.0, abs=0.1)
    rig.task.cancel()
    await asyncio.gather(rig.task, return_exceptions=True)
