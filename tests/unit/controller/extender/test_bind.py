"""Bindings that fail, hang or have an unknown outcome, by one or two replicas, with a fake API server."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from controller.extender.device_objects import DevicePod
from controller.extender.filter_result import NodeFit
from controller.extender.requested_devices import requested_devices
from controller.extender.reservations import EXPIRES_S, RESERVED_ANNOTATION, SEEN_ANNOTATION
from controller.extender.reserve import NotBound
from controller.extender.wire import ExtenderBindingArgs
from shared.devices.annotation import ANNOTATION
from shared.kube.objects import Key
from shared.kube.transport import Kube
from tests.builders.api_server import connected
from tests.builders.device_replica import DeviceReplica
from tests.builders.devices import CARD, card, device_node
from tests.builders.lease_server import OPEN, BindingServer, LaterClock

ONE = {card("a"): 1}
TWO = {card("a"): 1, card("b"): 1}
UNKNOWN_OUTCOME, REFUSED, OVERLOADED, NOT_AVAILABLE = 500, 422, 429, 503


class Replica(DeviceReplica):
    """A replica that binds pods to the node `n`."""

    def __init__(self, server: BindingServer, kube: Kube, clock: LaterClock, cards: Mapping[str, int] = ONE) -> None:
        super().__init__(kube, f"replica-{id(self)}", clock=clock)
        self._server, self._clock = server, clock
        self.add_node(cards)

    def see(self, *names: str) -> None:
        """Let the watch report the current pods."""
        for name in names:
            self.pods.upsert(msgspec.convert(self._server.pods[name], DevicePod))

    async def bind(self, name: str) -> str:
        """Bind a pod; return the reason if it was not bound."""
        args = ExtenderBindingArgs(pod_name=name, pod_namespace="default", pod_uid=f"uid-{name}", node="n")
        return await self.try_to_bind(args)

    async def fit(self, name: str) -> NodeFit:
        """Answer filter for one pod."""
        pod = self.pods.get(Key("default", name))
        assert pod is not None
        requested, until = requested_devices(pod), self._clock() + 1
        return (await self.worker.run(lambda evaluator: evaluator.fits(requested, ["n"], until)))[0]

    @property
    def counted(self) -> set[str]:
        return set(self.account.pods)


class Bench:
    """An API server, a clock, and two replicas that have seen the pods `p`, `q` and `r`, which request a card each."""

    def __init__(self, server: BindingServer, kube: Kube) -> None:
        self.server, self.kube, self.clock = server, kube, LaterClock()
        for name in "pqr":
            server.add(name, {CARD: 1})
        self.one, self.two = self.replica(), self.replica()

    def replica(self, cards: Mapping[str, int] = ONE) -> Replica:
        replica = Replica(self.server, self.kube, self.clock, cards)
        replica.see(*self.server.pods)
        return replica

    @property
    def reserved(self) -> list[str]:
        assert self.server.lease is not None
        return [each["name"] for each in json.loads(self.server.lease["metadata"]["annotations"][RESERVED_ANNOTATION])]

    def card_of(self, name: str) -> str | None:
        metadata = self.server.pods[name]["metadata"]
        main = json.loads(metadata["annotations"][ANNOTATION])["runningcontainer"]["main"]
        found: str | None = main.get("allocatefrom", {}).get(CARD)
        return found


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    server = BindingServer()
    async with connected(server.answer, tmp_path) as kube:
        yield Bench(server, kube)


async def test_after_an_unknown_outcome_only_the_lease_holds_the_device_and_the_pod_can_be_bound_again(
    bench: Bench,
) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    assert "whether the pod was bound is unknown" in await bench.one.bind("p")
    assert bench.one.counted == set()
    assert (await bench.one.fit("p")).fits
    assert "no devices for the pod any more" in await bench.one.bind("q")
    del bench.server.refusals["p"]
    assert await bench.one.bind("p") == ""
    assert bench.card_of("p") == card("a")


async def test_a_device_of_an_unknown_outcome_is_free_again_after_two_minutes(bench: Bench) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    assert await bench.one.bind("q") != ""
    bench.clock.passed_s = EXPIRES_S + 1
    assert await bench.one.bind("q") == ""
    assert bench.one.counted == {"uid-q"}


async def test_the_two_minutes_of_a_replicas_own_reservation_begin_when_it_is_written(bench: Bench) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    bench.clock.passed_s = EXPIRES_S + 1
    assert await bench.one.bind("q") == "", "the first pod after a while need not wait again"


async def test_a_replica_whose_watch_lags_by_minutes_reads_the_pod_of_an_old_reservation(bench: Bench) -> None:
    assert await bench.two.bind("p") == ""
    assert "no devices for the pod any more" in await bench.one.bind("q")
    bench.clock.passed_s = EXPIRES_S + 1
    assert "no devices for the pod any more" in await bench.one.bind("q")
    assert await bench.one.bind("p") != "", "it is on the node"
    assert "no devices for the pod any more" in await bench.one.bind("q")


async def test_a_replica_whose_watch_lags_trusts_no_cache_after_an_unreadable_lease(bench: Bench) -> None:
    assert await bench.two.bind("p") == ""
    assert bench.server.lease is not None
    bench.server.lease["metadata"]["annotations"][RESERVED_ANNOTATION] = "not JSON"
    assert "cannot be read" in await bench.one.bind("q")
    bench.clock.passed_s = EXPIRES_S + 1
    assert "no devices for the pod any more" in await bench.one.bind("q")


async def test_a_lease_whose_reservations_were_removed_by_hand_cannot_be_read(bench: Bench) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    assert bench.server.lease is not None
    del bench.server.lease["metadata"]["annotations"][RESERVED_ANNOTATION]
    assert "cannot be read" in await bench.two.bind("q")


async def test_a_replica_whose_watch_lags_trusts_no_cache_without_the_version_of_the_pods(bench: Bench) -> None:
    assert await bench.two.bind("p") == ""
    assert bench.server.lease is not None
    annotations = bench.server.lease["metadata"]["annotations"]
    annotations[RESERVED_ANNOTATION] = "[]"  # p is on its node
    del annotations[SEEN_ANNOTATION]
    assert "no devices for the pod any more" in await bench.one.bind("q")


async def test_each_attempt_to_bind_has_its_own_two_minutes(bench: Bench) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    assert await bench.two.bind("q") != ""  # it has seen the reservation of p now
    bench.clock.passed_s = EXPIRES_S + 1
    del bench.server.refusals["p"]
    bench.server.held["p"] = asyncio.Event()
    bench.server.asked = asyncio.Semaphore(0)
    again = asyncio.create_task(bench.one.bind("p"))
    await bench.server.asked.acquire()
    while not bench.reserved:  # noqa: ASYNC110 - the server writes it before it answers
        await asyncio.sleep(0.001)
    assert "no devices for the pod any more" in await bench.two.bind("q")
    bench.server.held["p"].set()
    assert await again == ""


async def test_a_replica_reads_the_lease_before_it_refuses_a_pod(bench: Bench) -> None:
    bench.server.held["p"], bench.server.refusals["p"] = asyncio.Event(), REFUSED
    await bench.one.reserver.ensure_lease(bench.one.account)
    bench.server.asked = asyncio.Semaphore(0)
    binding = asyncio.create_task(bench.one.bind("p"))
    await bench.server.asked.acquire()
    assert await bench.two.bind("q") != ""
    bench.server.held["p"].set()
    assert "its devices are free again" in await binding
    assert bench.reserved == []
    assert await bench.two.bind("q") == ""


async def test_a_refused_binding_that_cannot_be_confirmed_keeps_its_reservation(bench: Bench) -> None:
    bench.server.refusals["p"], bench.server.unreadable = REFUSED, {"p"}
    assert "whether the pod was bound is unknown" in await bench.one.bind("p")
    assert bench.reserved == ["p"]
    assert bench.one.counted == set()


async def test_the_devices_of_a_binding_that_an_overloaded_server_refuses_are_free_at_once(bench: Bench) -> None:
    bench.server.refusals["p"] = OVERLOADED
    assert "its devices are free again" in await bench.one.bind("p")
    assert bench.reserved == []
    assert await bench.two.bind("q") == ""


async def test_a_binding_that_a_proxy_may_have_passed_on_keeps_its_reservation(bench: Bench) -> None:
    bench.server.refusals["p"] = NOT_AVAILABLE
    assert "whether the pod was bound is unknown" in await bench.one.bind("p")
    assert bench.reserved == ["p"]


async def test_a_second_attempt_that_is_refused_keeps_the_reservation_of_the_first(bench: Bench) -> None:
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    bench.server.refusals["p"] = REFUSED
    assert await bench.one.bind("p") != ""
    assert bench.reserved == ["p"]


async def test_a_pod_that_another_replica_bound_meanwhile_is_still_counted(bench: Bench) -> None:
    """The scheduler gives up after 0.5 s and asks again, perhaps another replica."""
    slow, other = bench.replica(TWO), bench.replica(TWO)
    assert await other.bind("r") == ""
    may_decide = threading.Event()
    busy = asyncio.create_task(slow.worker.run(lambda _: may_decide.wait(), 60))
    await asyncio.sleep(0)
    late = asyncio.create_task(slow.bind("p"))
    await asyncio.sleep(0)
    assert await other.bind("p") == ""
    bench.server.change("r", {"status": {"phase": "Succeeded"}})
    other.see("p", "r")
    bench.server.refusals["q"] = REFUSED
    await other.bind("q")  # removes the reservation of p
    assert bench.reserved == []
    slow.see("p", "r")
    may_decide.set()
    await busy
    assert "already on node n" in await late
    assert bench.reserved == []
    (counted,) = slow.account.pods.values()
    assert counted.running_containers["main"].allocate_from == {CARD: bench.card_of("p")}
    del bench.server.refusals["q"]
    assert await slow.bind("q") == ""
    assert bench.card_of("q") != bench.card_of("p")


async def test_a_pod_that_was_bound_since_it_was_read_gets_no_other_devices(bench: Bench) -> None:
    """Otherwise the reservation with the others would hide those that it has."""
    replica = Replica(bench.server, bench.kube, bench.clock, TWO)
    before = msgspec.convert(bench.server.pods["p"], DevicePod)
    assert await replica.bind("p") == ""
    with pytest.raises(NotBound, match="the pod is already on node n"):
        await replica.reserver.reserve(before, requested_devices(before), replica.account)


async def test_unknown_keys_reach_the_pod_but_not_the_lease(bench: Bench) -> None:
    text = json.dumps({"x": "y" * 30_000, "runningcontainer": {"main": {"requests": {CARD: 1}, "z": [1]}}})
    bench.server.add("large", None, text)
    bench.server.refusals["large"] = UNKNOWN_OUTCOME
    replica = bench.replica()
    await replica.bind("large")
    assert bench.server.lease is not None
    assert len(bench.server.lease["metadata"]["annotations"][RESERVED_ANNOTATION]) < 1000
    del bench.server.refusals["large"]
    another = bench.replica()  # which knows only the Lease
    assert await another.bind("large") == ""
    written = json.loads(bench.server.pods["large"]["metadata"]["annotations"][ANNOTATION])
    assert len(written["x"]) == 30_000
    assert written["runningcontainer"]["main"]["z"] == [1]


async def test_a_pod_of_a_namespace_that_is_not_open_takes_no_devices(bench: Bench) -> None:
    bench.server.namespace_labels = {}
    reason = await bench.one.bind("p")
    assert "ask an administrator to run kubectl label namespace default larder.dev/device-scheduling=true" in reason
    assert bench.server.lease is None
    assert bench.one.counted == set()
    bench.server.namespace_labels = OPEN
    assert await bench.one.bind("q") == ""
    bench.server.namespace_labels = {}
    assert "no devices for the pod any more" in await bench.one.bind("p"), "the answer is remembered"
    bench.clock.passed_s = 31
    assert "not enabled in namespace" in await bench.one.bind("p")


async def test_a_cancelled_binding_is_not_counted(bench: Bench) -> None:
    bench.server.held["p"] = asyncio.Event()
    binding = asyncio.create_task(bench.one.bind("p"))
    while "uid-p" not in bench.one.counted:  # noqa: ASYNC110 - it is counted when it is reserved
        await asyncio.sleep(0.001)
    await bench.server.asked.acquire()
    while not bench.server.written:  # noqa: ASYNC110 - the server fills it
        await asyncio.sleep(0.001)
    binding.cancel()
    await asyncio.gather(binding, return_exceptions=True)
    bench.server.held["p"].set()
    assert bench.one.counted == set()


async def test_a_replica_that_stood_still_sends_no_binding_whose_reservation_others_dropped(bench: Bench) -> None:
    stands_still = bench.server.may_answer = asyncio.Event()
    late = asyncio.create_task(bench.one.bind("p"))
    while not bench.server.written:  # noqa: ASYNC110 - the server fills it
        await asyncio.sleep(0.001)
    bench.server.may_answer = asyncio.Event()
    bench.server.may_answer.set()
    assert await bench.two.bind("q") != ""
    bench.clock.passed_s = EXPIRES_S + 1
    assert await bench.two.bind("q") == ""
    stands_still.set()
    assert "the scheduler retries" in await late
    assert not bench.server.pods["p"]["spec"].get("nodeName")
    assert bench.one.counted == set()


async def test_no_device_is_given_away_for_two_minutes_after_the_lease_was_deleted(bench: Bench) -> None:
    """The other replica does not know of the binding that is in flight."""
    await bench.two.reserver.ensure_lease(bench.two.account)
    bench.server.held["p"] = asyncio.Event()
    binding = asyncio.create_task(bench.one.bind("p"))
    while not bench.server.written[-1]:  # noqa: ASYNC110 - the server fills it
        await asyncio.sleep(0.001)
    bench.server.lease = None
    for replica in (bench.one, bench.two):
        assert "someone deleted Lease larder-devices-n" in await replica.bind("q")
    bench.server.held["p"].set()
    assert await binding == ""
    bench.clock.passed_s = EXPIRES_S + 1
    assert "no devices for the pod any more" in await bench.two.bind("q")
    bench.server.change("p", {"status": {"phase": "Succeeded"}})
    assert await bench.two.bind("q") == ""


async def test_devices_of_an_unknown_outcome_are_kept_after_the_node_was_created_again(bench: Bench) -> None:
    """Kubernetes deletes the Lease of the old node, and another replica creates one for the new node."""
    bench.server.refusals["p"] = UNKNOWN_OUTCOME
    await bench.one.bind("p")
    for replica in (bench.one, bench.two):
        replica.store.node_changed(device_node("n"), None)
        replica.accounts.node_changed(device_node("n"), None)
        replica.add_node(ONE)
    bench.server.lease = None
    await bench.two.reserver.ensure_lease(bench.two.account)
    assert "no devices for the pod any more" in await bench.one.bind("q")
    bench.clock.passed_s = EXPIRES_S + 1
    assert await bench.one.bind("q") == ""
