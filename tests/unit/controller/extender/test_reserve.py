"""Reservations of several pods at once, against an API server that keeps one Lease."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.extender.evaluator import FitEvaluator
from controller.extender.requested_devices import RequestedDevices, requested_devices
from controller.extender.reservations import (
    EXPIRES_S,
    RESERVED_ANNOTATION,
    DeviceReservation,
    UnreadableReservations,
)
from controller.extender.reserve import NotBound
from controller.extender.worker import NoAnswerInTime
from shared.devices.info import PodInfo
from shared.errors import LarderError
from shared.json_object import Json
from shared.kube.errors import Refused
from shared.kube.transport import Kube
from tests.builders.api_server import connected
from tests.builders.device_replica import DeviceReplica
from tests.builders.devices import CARD, card, device_node, device_pod
from tests.builders.lease_server import LaterClock, LeaseServer

_CARDS = {card(place): 1 for place in "abcd"}


class Node(DeviceReplica):
    """A replica that knows a node with four cards."""

    def __init__(self, server: LeaseServer, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(kube, clock=clock)
        self.server, self.kube = server, kube
        self.add_node(_CARDS)

    async def reserve(self, name: str, request: str = CARD) -> DeviceReservation:
        pod = device_pod(name, {request: 1})
        self.pods.upsert(pod)
        return await self.reserver.reserve(pod, requested_devices(pod), self.account)

    async def reserve_at_once(self, *names: str, last: str = CARD) -> list[DeviceReservation | BaseException]:
        """Reserve for the first pod, and for the others while that is being written; `last`: the last request."""
        self.server.may_write.clear()
        counted = len(self.account.pods) + len(names)
        first = asyncio.create_task(self.reserve(names[0]))
        await self.server.asked.acquire()
        requests = {names[-1]: last}
        others = [asyncio.create_task(self.reserve(name, requests.get(name, CARD))) for name in names[1:]]
        while len(self.account.pods) < counted:  # noqa: ASYNC110 - each is counted before it waits
            await asyncio.sleep(0.001)
        self.server.may_write.set()
        return await asyncio.gather(first, *others, return_exceptions=True)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    server = LeaseServer()
    async with connected(server.answer, tmp_path) as kube:
        found = Node(server, kube)
        await found.reserver.ensure_lease(found.account)
        await server.asked.acquire()
        server.written.clear()
        yield found


def cards(*reservations: Any) -> list[str]:
    found = [each.info for each in reservations if isinstance(each, DeviceReservation)]
    return [place for info in found for place in info.running_containers["main"].allocate_from.values()]


async def test_reservations_made_during_a_write_share_the_next_write(node: Node) -> None:
    found = await node.reserve_at_once("p", "q", "r", "s")
    assert node.server.written == [{"p"}, {"p", "q", "r", "s"}]
    assert sorted(cards(*found)) == sorted(_CARDS)


async def test_after_a_conflict_the_whole_group_is_decided_again(node: Node) -> None:
    """Another replica reserves a card between our reading and our write."""
    assert cards(await node.reserve("p")) == [card("d")]
    entry = {"namespace": "default", "name": "theirs", "uid": "uid-theirs", "devices": _devices(card("c"))}
    theirs = [*_entries(node.server.lease), entry]
    assert node.server.lease is not None
    annotations = node.server.lease["metadata"]["annotations"] | {RESERVED_ANNOTATION: json.dumps(theirs)}
    node.server.write(node.server.lease | {"metadata": node.server.lease["metadata"] | {"annotations": annotations}})
    node.pods.upsert(device_pod("theirs", {CARD: 1}))
    found = await node.reserve_at_once("q", "r", "s")
    assert node.conflicts
    refused = [each for each in found if isinstance(each, NotBound)]
    assert sorted(cards(*found)) == [card("a"), card("b")]
    assert ["has no devices for the pod any more" in str(each) for each in refused] == [True]
    assert len(node.server.written[-1]) == 4


async def test_a_failed_binding_gives_back_only_its_own_reservation(node: Node) -> None:
    found = await node.reserve_at_once("p", "q", "r")
    assert isinstance(found[1], DeviceReservation)
    await node.reserver.give_back(found[1], node.account)
    assert node.server.written[-1] == {"p", "r"}
    assert set(node.account.pods) == {"uid-p", "uid-r"}
    again = await node.reserve("q")
    assert cards(again) == cards(found[1])


async def test_devices_of_an_earlier_attempt_are_not_given_to_another_pod_of_the_group(node: Node) -> None:
    """Whether an earlier binding of r arrived is unknown, so only the Lease holds its devices."""
    earlier = await node.reserve("r")
    await node.server.asked.acquire()
    node.accounts.forget_assumed(earlier.uid)
    found = await node.reserve_at_once("p", "q", "r")
    assert cards(found[2]) == cards(earlier)
    assert len(set(cards(*found))) == 3


async def test_a_refused_pod_keeps_the_devices_of_its_earlier_attempt(node: Node) -> None:
    earlier = await node.reserve("r")
    await node.server.asked.acquire()
    node.accounts.forget_assumed(earlier.uid)
    found = await node.reserve_at_once("p", "q", "r", last=card("1"))
    assert isinstance(found[2], NotBound)
    assert node.server.written[-1] == {"p", "q", "r"}
    assert len(set(cards(earlier, *found))) == 3


async def test_a_pod_whose_request_was_cancelled_before_its_group_is_decided_takes_no_devices(node: Node) -> None:
    """The first pod of the group is being decided when the request for the last one is cancelled."""
    over = threading.Event()
    node.server.may_write.clear()
    first = asyncio.create_task(node.reserve("p"))
    await node.server.asked.acquire()
    second, cancelled = asyncio.create_task(node.reserve("q")), asyncio.create_task(node.reserve("r"))
    while len(node.account.pods) < 3:  # noqa: ASYNC110 - each is counted before it waits
        await asyncio.sleep(0.001)
    busy = asyncio.create_task(node.worker.run(lambda _: over.wait(), 60))
    await asyncio.sleep(0)
    node.server.may_write.set()
    await first
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    over.set()
    await asyncio.gather(busy, second)
    assert set(node.account.pods) == {"uid-p", "uid-q"}
    assert node.server.written[-1] == {"p", "q"}


async def test_devices_are_given_back_while_the_worker_is_busy(node: Node) -> None:
    """A plugin may hang after the pods have been placed, and before their group is committed."""
    over, given = threading.Event(), await node.reserve("p")
    await node.server.asked.acquire()
    node.server.may_write.clear()
    first = asyncio.create_task(node.reserve("q"))
    await node.server.asked.acquire()
    second = asyncio.create_task(node.reserve("r"))
    while len(node.account.pods) < 3:  # noqa: ASYNC110 - each is counted before it waits
        await asyncio.sleep(0.001)
    busy = asyncio.create_task(node.worker.run(lambda _: over.wait(), 60))
    back = asyncio.create_task(node.reserver.give_back(given, node.account))
    await asyncio.sleep(0)
    node.server.may_write.set()
    refused, *_ = await asyncio.gather(second, first, back, return_exceptions=True)
    assert isinstance(refused, NoAnswerInTime)
    assert node.server.written[-1] == {"q"}
    over.set()
    await busy


async def test_a_node_that_is_deleted_before_its_lease_is_created_is_an_expected_error(node: Node) -> None:
    account = node.account
    node.accounts.node_changed(device_node("n"), None)
    node.store.node_changed(device_node("n"), None)
    with pytest.raises(LarderError, match="node n is gone"):
        await node.reserver.ensure_lease(account)


async def test_giving_back_an_earlier_attempt_keeps_a_later_reservation(node: Node) -> None:
    first = await node.reserve("p")
    second = await node.reserve("p")
    assert cards(first) == cards(second)
    await node.reserver.give_back(first, node.account)
    assert node.server.written[-1] == {"p"}
    await node.reserver.give_back(second, node.account)
    assert node.server.written[-1] == {"p"}, "the first one could still arrive"


async def test_reservations_of_a_refused_write_are_retried_one_by_one(node: Node) -> None:
    node.server.most_entries = 2
    found = await node.reserve_at_once("p", "q", "r")
    assert [len(written) for written in node.server.written] == [1, 2]
    assert len(set(cards(*found))) == 2
    assert sum(isinstance(each, Refused) for each in found) == 1
    assert len(node.account.pods) == 2


async def test_a_pod_that_causes_an_error_fails_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = FitEvaluator.place_beside

    def failing(evaluator: FitEvaluator, pods: Any, requested: RequestedDevices, name: str, uid: str) -> PodInfo | str:
        if uid == "uid-q":
            raise RecursionError
        return allocate(evaluator, pods, requested, name, uid)

    monkeypatch.setattr(FitEvaluator, "place_beside", failing)
    found = await asyncio.gather(*(node.reserve(name) for name in "pqr"), return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["DeviceReservation", "RecursionError", "DeviceReservation"]


@pytest.mark.parametrize(
    "text", ["not JSON", '[{"namespace": "d", "name": "x", "uid": "u", "devices": {"requests": 5}}]']
)
async def test_unreadable_reservations_keep_all_devices_of_the_node_until_they_expire(node: Node, text: str) -> None:
    assert node.server.lease is not None
    metadata = node.server.lease["metadata"]
    node.server.lease["metadata"] = metadata | {"annotations": metadata["annotations"] | {RESERVED_ANNOTATION: text}}
    later = LaterClock()
    other = Node(node.server, node.kube, later)
    with pytest.raises(UnreadableReservations, match="cannot be read"):
        await other.reserve("p")
    later.passed_s = EXPIRES_S + 1
    assert cards(await other.reserve("p")) == [card("d")]


async def test_a_lease_is_created_once_and_before_the_first_pod(node: Node) -> None:
    assert node.server.lease is not None
    await node.reserver.ensure_lease(node.account)
    assert node.server.written == []


async def test_a_new_leader_lists_the_leases_instead_of_reading_each(node: Node, tmp_path: Path) -> None:
    (first,) = await node.reserve_at_once("p")
    node.server.reads.clear()
    async with connected(node.server.answer, tmp_path) as kube:
        other = Node(node.server, kube)
        other.pods.upsert(device_pod("p", {CARD: 1}))
        await other.reserver.ensure_lease(other.account)
        await other.reserver.ensure_lease(other.account)
        second = await other.reserve("q")
    assert [path.rpartition("/")[2] for path in node.server.reads] == ["leases"]
    assert cards(first) != cards(second)
    assert other.conflicts == 0


async def test_the_first_pods_of_a_node_create_its_lease(tmp_path: Path) -> None:
    server = LeaseServer()
    async with connected(server.answer, tmp_path) as kube:
        node = Node(server, kube)
        found = await asyncio.gather(*(node.reserve(name) for name in "pqrs"))
    assert sorted(cards(*found)) == sorted(_CARDS)
    assert server.written[-1] == {"p", "q", "r", "s"}


def _devices(place: str) -> Json:
    main = {"requests": {CARD: 1}, "devrequests": {CARD: 1}, "allocatefrom": {CARD: place}}
    return {"nodename": "n", "runningcontainer": {"main": main}}


def _entries(lease: Json | None) -> list[Json]:
    assert lease is not None
    found: list[Json] = json.loads(lease["metadata"]["annotations"][RESERVED_ANNOTATION])
    return found
