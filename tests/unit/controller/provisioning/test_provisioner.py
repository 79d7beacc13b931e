"""The queue that creates volumes and claims."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable

import pytest
from prometheus_client import CollectorRegistry

from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import MAX_IN_FLIGHT, MAX_PER_FLOW, Provisioner, ProvisionSettings, Turns
from shared.backoff import Backoff
from shared.kube.errors import Busy, Conflict, KubeError, NotAdmitted, Refused, Unreachable

MAX_ATTEMPTS = 10
_SHORT, _ALIKE = Backoff(first_s=0.01, cap_s=0.01), ProvisionOrder()
WEBHOOK = '500 InternalError: Internal error occurred: failed calling webhook "a.example.org": refused'
Create = Callable[[], Awaitable[None]]


class Rig:
    """A provisioner and a record of its actions."""

    def __init__(
        self,
        rate: float = 1e6,
        burst: float = 1e6,
        backoff: Backoff = _SHORT,
        turns: Turns = "namespaces",
        settle_s: float = 0,
    ) -> None:
        self.created, self.failed, self.internal = list[Hashable](), list[tuple[Hashable, str]](), list[Hashable]()
        self.news, clock = asyncio.Event(), asyncio.get_running_loop().time
        internal = self.internal
        self.provisioner = Provisioner(
            ProvisionSettings(rate=rate, burst=burst, backoff=backoff, turns=turns, settle_s=settle_s),
            clock,
            CollectorRegistry(),
            lambda key, _: internal.append(key),
        )
        self.task = asyncio.create_task(self.provisioner.run())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def ask(
        self,
        key: Hashable,
        create: Create | None = None,
        flow: Hashable = "",
        order: ProvisionOrder = _ALIKE,
    ) -> bool:
        def failed(error: KubeError) -> None:
            self.failed.append((key, str(error)))
            self.news.set()

        def created() -> None:
            self.created.append(key)
            self.news.set()

        return self.provisioner.request(ProvisionRequest(key, flow, create or _nothing, failed, created, order))

    async def until(self, condition: Callable[[], bool], within_s: float = 60) -> None:
        async with asyncio.timeout(within_s):
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
    await made.end()


async def test_requests_are_served_in_order_of_arrival_and_each_once(rig: Rig) -> None:
    for key in ("a", "b", "a", "c"):
        rig.ask(key)
    await rig.until(lambda: len(rig.created) == 3)
    assert rig.created == ["a", "b", "c"]


async def test_a_namespace_with_500_requests_delays_another_by_a_single_request(rig: Rig) -> None:
    for number in range(500):
        rig.ask(number, flow="many")
    rig.ask("one", flow="few")
    await rig.until(lambda: len(rig.created) == 501)
    assert rig.created.index("one") == 1
    assert [key for key in rig.created if key != "one"] == list(range(500))


async def test_500_namespaces_with_a_request_each_are_served_in_order_of_arrival(rig: Rig) -> None:
    for number in range(500):
        rig.ask(number, flow=number)
    await rig.until(lambda: len(rig.created) == 500)
    assert rig.created == list(range(500))


async def test_a_withdrawn_request_is_not_served_and_its_flow_continues(rig: Rig) -> None:
    for key in ("a", "b", "c"):
        rig.ask(key, flow="many")
    rig.provisioner.withdraw("b")
    await rig.until(lambda: len(rig.created) == 2)
    assert rig.created == ["a", "c"]


async def test_a_request_that_fails_is_retried_before_others_of_its_flow(rig: Rig) -> None:
    rig.ask("a", raising(Unreachable("down"), Unreachable("down")))
    rig.ask("b")
    await rig.until(lambda: len(rig.created) == 2)
    assert (rig.created, rig.failed) == (["a", "b"], [])


async def test_a_request_that_keeps_failing_is_reported_and_moves_to_the_tail_of_its_flow(rig: Rig) -> None:
    rig.ask("a", raising(*(Unreachable("down") for _ in range(MAX_ATTEMPTS))))
    rig.ask("b")
    await rig.until(lambda: len(rig.created) == 2)
    assert (rig.created, rig.failed) == (["b", "a"], [("a", "down")])


async def test_a_flow_that_keeps_failing_delays_no_other(rig: Rig) -> None:
    fails = True

    async def create() -> None:
        if fails:
            raise NotAdmitted(WEBHOOK, 500)

    for number in range(100):
        rig.ask(f"bad-{number}", create, flow=f"bad-{number % 50}")
    rig.ask("good", flow="good")
    await rig.until(lambda: rig.created == ["good"])
    await rig.until(lambda: len({key for key, _ in rig.failed}) > 50)
    fails = False
    await rig.until(lambda: len(rig.created) == 101)


async def test_hanging_requests_of_some_namespaces_leave_a_slot_for_others(rig: Rig) -> None:
    hanging = 0
    end = asyncio.Event()

    async def create() -> None:
        nonlocal hanging
        hanging += 1
        await end.wait()

    for number in range(10 * MAX_IN_FLIGHT):
        rig.ask(f"slow-{number}", create, flow=f"slow-{number % (MAX_IN_FLIGHT - 1)}")
    rig.ask("good", flow="good")
    await rig.until(lambda: rig.created == ["good"])
    assert hanging == MAX_IN_FLIGHT - 1
    end.set()
    await rig.until(lambda: len(rig.created) == 10 * MAX_IN_FLIGHT + 1)


@pytest.mark.looptime
async def test_after_an_outage_requests_are_served_at_the_rate_and_no_faster() -> None:
    rig, loop = Rig(rate=5, burst=10), asyncio.get_running_loop()
    begun, attempts = loop.time(), 0

    async def create() -> None:
        nonlocal attempts
        attempts += 1
        raise Unreachable("down")

    for number in range(500):
        rig.ask(number, create, flow=number)
    async with asyncio.timeout(200):
        await asyncio.sleep(60)
    assert attempts <= 10 + 5 * (loop.time() - begun) + 1
    await rig.end()


async def test_a_refused_request_ends_and_does_not_delay_others(rig: Rig) -> None:
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


async def test_a_request_withdrawn_during_its_last_attempt_does_not_affect_others(rig: Rig) -> None:
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
async def test_500_requests_take_98_s_at_the_default_rate_and_every_second_adds_at_most_5() -> None:
    rig, loop = Rig(rate=5, burst=10), asyncio.get_running_loop()
    begun, created_s = loop.time(), list[float]()

    async def create() -> None:
        created_s.append(loop.time() - begun)

    for number in range(500):
        rig.ask(number, create, flow=number)
    await rig.until(lambda: len(rig.created) == 500, within_s=200)
    assert created_s[-1] == pytest.approx(98, abs=0.1)
    assert all(number < 11 + 5 * at_s for number, at_s in enumerate(created_s))
    await rig.end()


@pytest.mark.looptime
async def test_a_leader_that_is_elected_again_gets_no_second_burst() -> None:
    rig, loop = Rig(rate=5, burst=10), asyncio.get_running_loop()
    for number in range(10):
        rig.ask(number)
    await rig.until(lambda: len(rig.created) == 10)
    await rig.end()
    rig.task, begun = asyncio.create_task(rig.provisioner.run()), loop.time()
    for number in range(10, 15):
        rig.ask(number)
    await rig.until(lambda: len(rig.created) == 15)
    assert loop.time() - begun == pytest.approx(1.0, abs=0.1)
    await rig.end()


@pytest.mark.looptime
async def test_a_stall_of_the_api_server_is_followed_by_no_more_than_a_burst() -> None:
    rig, loop, answers = Rig(rate=5, burst=10), asyncio.get_running_loop(), asyncio.Event()
    created_s = list[float]()

    async def create() -> None:
        await answers.wait()
        created_s.append(loop.time())

    for number in range(100):
        rig.ask(number, create, flow=number)
    await asyncio.sleep(20)
    answers.set()
    await rig.until(lambda: len(rig.created) == 100)
    assert sum(at_s < created_s[0] + 1 for at_s in created_s) <= MAX_IN_FLIGHT + 10 + 5
    await rig.end()


@pytest.mark.looptime
async def test_requests_beyond_the_burst_are_served_at_the_rate() -> None:
    rig, loop = Rig(rate=5, burst=10), asyncio.get_running_loop()
    begun = loop.time()
    for number in range(20):
        rig.ask(number)
    await rig.until(lambda: len(rig.created) == 20)
    assert loop.time() - begun == pytest.approx(2.0, abs=0.1)
    await rig.end()


async def test_during_an_outage_only_the_failed_requests_are_retried() -> None:
    rig, tried = Rig(), list[Hashable]()
    is_down = True

    def creating(key: Hashable) -> Create:
        async def create() -> None:
            tried.append(key)
            if is_down:
                raise Unreachable("connection refused")

        return create

    for number in range(50):
        rig.ask(number, creating(number), flow=number)
    await rig.until(lambda: bool(rig.failed))
    assert set(tried[MAX_IN_FLIGHT:]) <= set(range(MAX_IN_FLIGHT))  # those that were running, and then one at a time
    is_down = False
    await rig.until(lambda: len(rig.created) == 50)
    await rig.end()


@pytest.mark.looptime
async def test_an_outage_costs_few_attempts_with_growing_pauses_and_ends_within_the_longest() -> None:
    rig, loop = Rig(rate=20, burst=10, backoff=Backoff(first_s=0.5, cap_s=30)), asyncio.get_running_loop()
    begun, tried_s = loop.time(), list[float]()

    async def create() -> None:
        tried_s.append(loop.time() - begun)
        if loop.time() - begun < 120:
            raise Unreachable("connection refused")

    for number in range(500):
        rig.ask(number, create, flow=number)
    await rig.until(lambda: len(rig.created) == 500, within_s=300)
    assert len([at_s for at_s in tried_s if at_s < 120]) <= 10 + MAX_IN_FLIGHT
    assert tried_s[-1] < 120 + 30 + 500 / 20
    await rig.end()


@pytest.mark.looptime
async def test_a_pause_that_the_server_requests_is_respected() -> None:
    rig, loop = Rig(), asyncio.get_running_loop()
    begun = loop.time()
    rig.ask("a", raising(Busy("too many requests", 20, 429)), flow="a")
    rig.ask("b", flow="b")
    await rig.until(lambda: "a" in rig.created)
    assert 20 <= loop.time() - begun < 26
    await rig.end()


@pytest.mark.looptime
@pytest.mark.parametrize(
    "failure",
    [
        NotAdmitted(WEBHOOK, 500),
        Conflict("409 Conflict: the quota changed"),
    ],
)
async def test_a_failure_of_one_namespace_delays_no_other(failure: KubeError) -> None:
    rig, loop = Rig(backoff=Backoff(first_s=60, cap_s=60)), asyncio.get_running_loop()
    rig.ask("bad", raising(failure), flow="bad")
    rig.ask("bad, too", flow="bad")
    begun = loop.time()
    for number in range(100):
        rig.ask(number, flow=number)
    await rig.until(lambda: len(rig.created) == 100)
    assert loop.time() - begun < 1
    await rig.until(lambda: len(rig.created) == 102, within_s=100)
    assert rig.created[-2:] == ["bad", "bad, too"]
    await rig.end()


@pytest.mark.looptime
async def test_a_webhook_that_never_answers_delays_only_its_namespace() -> None:
    rig, loop = Rig(rate=5, burst=1, backoff=Backoff(first_s=60, cap_s=60)), asyncio.get_running_loop()

    async def hang() -> None:
        await asyncio.sleep(30)
        raise Unreachable("no answer within 30 s")

    rig.ask("bad", hang, flow="bad")
    begun = loop.time()
    for number in range(500):
        rig.ask(number, flow="good")
    await rig.until(lambda: len(rig.created) == 500, within_s=200)
    assert loop.time() - begun == pytest.approx(100, abs=1)
    await rig.end()


async def test_in_order_of_arrival_a_failing_request_delays_all_others() -> None:
    rig = Rig(turns="arrival")
    rig.ask("a", raising(NotAdmitted(WEBHOOK, 500), NotAdmitted(WEBHOOK, 500)), flow="a")
    rig.ask("b", flow="b")
    await rig.until(lambda: len(rig.created) == 2)
    assert rig.created == ["a", "b"]
    await rig.end()


@pytest.mark.looptime
async def test_a_new_leader_serves_requests_by_the_age_of_their_owners() -> None:
    rig = Rig(settle_s=0.5)
    for number in reversed(range(100)):
        rig.ask(number, order=ProvisionOrder(f"2026-01-01T00:00:{number:02}Z"))
        await asyncio.sleep(0.05)
    await rig.until(lambda: len(rig.created) == 100)
    assert rig.created == list(range(100))
    await rig.end()


@pytest.mark.looptime
async def test_requests_that_keep_arriving_are_served_after_ten_seconds_at_the_latest() -> None:
    rig, loop, number = Rig(settle_s=0.5), asyncio.get_running_loop(), 0
    begun = loop.time()
    while not rig.created:
        number += 1
        rig.ask(number)
        await asyncio.sleep(0.1)
    assert loop.time() - begun == pytest.approx(10, abs=0.3)
    await rig.end()


@pytest.mark.looptime
async def test_the_position_of_a_request_counts_down_to_the_head() -> None:
    rig = Rig(rate=1, burst=1)
    for key in ("a", "b", "c"):
        rig.ask(key)
    assert [rig.provisioner.position(key) for key in ("a", "b", "c", "d")] == [1, 2, 3, None]
    await rig.until(lambda: rig.created == ["a"])
    assert [rig.provisioner.position(key) for key in ("a", "b", "c")] == [None, 1, 2]
    await rig.end()


async def test_a_namespace_cannot_fill_the_memory_with_requests() -> None:
    rig = Rig(rate=1e-6, burst=1e-6)
    assert all(rig.ask(key, flow="flood") for key in range(MAX_PER_FLOW))
    assert not rig.ask("more", flow="flood")
    assert rig.ask(0, flow="flood"), "a waiting request keeps its place"
    assert rig.ask("other", flow="victim")
    rig.provisioner.withdraw(7)
    assert rig.ask("more", flow="flood"), "the place is free again"
    await rig.end()
