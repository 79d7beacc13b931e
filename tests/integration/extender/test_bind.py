"""Binding with devices on a real API server: a single write, races between replicas, released devices."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import msgspec
import pytest

from controller.extender.device_objects import DeviceNode
from controller.extender.reservations import RESERVED_ANNOTATION, lease_name
from rig.api import Api
from rig.control_plane import ControlPlane
from shared.devices.annotation import ANNOTATION
from shared.dra import DRIVER, resource_claims_in
from shared.json_object import Json
from shared.kube.transport import Kube, connect
from tests.builders.devices import CARD, card
from tests.integration.extender.replicas import (
    LEASES,
    PODS,
    ExtenderReplica,
    create_node,
    create_pod,
    replica,
)

CLAIMS = resource_claims_in("default")
_RACES = 500


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api(control_plane: ControlPlane) -> Api:
    return control_plane.api


@pytest.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[Kube]:
    async with connect(control_plane.kubeconfig) as kube:
        yield kube


@pytest.fixture
def node(api: Api, request: pytest.FixtureRequest) -> Iterator[Json]:
    """A node with one card; its pods are deleted with it."""
    name = f"card-{abs(hash(request.node.name)) % 10**8}"
    yield create_node(api, name, {card("a"): 1})
    for pod in api.get(f"{PODS}?fieldSelector=spec.schedulerName=larder-scheduler")["items"]:
        api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0)
    api.delete(f"/api/v1/nodes/{name}")
    api.delete(f"{LEASES}/{lease_name(name)}")


@pytest.fixture
def one(kube: Kube, node: Json) -> ExtenderReplica:
    found = replica(kube, "one")
    found.follow_node(node)
    return found


@pytest.fixture
def two(kube: Kube, node: Json) -> ExtenderReplica:
    found = replica(kube, "two")
    found.follow_node(node)
    return found


def name_of(body: Json) -> str:
    return str(body["metadata"]["name"])


def read(api: Api, pod: Json) -> Json:
    return api.get(f"{PODS}/{name_of(pod)}")


def allocated(pod: Json) -> list[str]:
    info = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    return list(info["runningcontainer"]["main"]["allocatefrom"].values())


def reserved(api: Api, node: Json) -> list[str]:
    lease = api.get(f"{LEASES}/{lease_name(name_of(node))}")
    return [each["name"] for each in json.loads(lease["metadata"]["annotations"][RESERVED_ANNOTATION])]


async def test_the_allocation_and_the_node_are_written_together(api: Api, one: ExtenderReplica, node: Json) -> None:
    pod = create_pod(api, "asks", {CARD: 1})
    assert await one.bind(pod, name_of(node)) == ""
    bound = read(api, pod)
    written = json.loads(bound["metadata"]["annotations"][ANNOTATION])
    assert bound["spec"]["nodeName"] == written["nodename"] == name_of(node)
    assert written["runningcontainer"]["main"] == {
        "requests": {CARD: 1},
        "devrequests": {CARD: 1},
        "allocatefrom": {CARD: card("a")},
    }


async def test_a_pod_without_devices_is_bound_without_a_lease(api: Api, one: ExtenderReplica, node: Json) -> None:
    pod = create_pod(api, "plain")
    assert await one.bind(pod, name_of(node)) == ""
    assert read(api, pod)["spec"]["nodeName"] == name_of(node)
    assert not api.answers(f"{LEASES}/{lease_name(name_of(node))}")
    assert await one.bind(pod, name_of(node)) == ""
    assert "is already on node" in await one.bind(pod, "other")


async def test_a_stale_replica_sees_devices_reserved_by_another_replica(
    api: Api, one: ExtenderReplica, two: ExtenderReplica, node: Json
) -> None:
    first, second = create_pod(api, "first", {CARD: 1}), create_pod(api, "second", {CARD: 1})
    assert await one.bind(first, name_of(node)) == ""
    assert f"container main: {CARD}: requested 1, used 1, capacity 1" in await two.bind(second, name_of(node))
    assert "nodeName" not in read(api, second)["spec"]
    assert ANNOTATION in read(api, second)["metadata"]["annotations"]
    api.delete(f"{PODS}/first", grace_s=0)
    assert await two.bind(second, name_of(node)) == ""
    assert await one.bind(first, name_of(node)) == "the pod is gone"


async def test_a_stale_replica_lists_the_pods_whose_reservations_were_dropped(
    api: Api, one: ExtenderReplica, two: ExtenderReplica, node: Json
) -> None:
    """The reservation is dropped once one replica sees the pod on the node; the other replica has not seen it."""
    name, more = name_of(node), json.dumps({"allocatable": {card("a"): 1, card("b"): 1}})
    changed = api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {ANNOTATION: more}}})
    for each in (one, two):
        each.follow_node(changed)
    first, second, third = (create_pod(api, each, {CARD: 1}) for each in ("first", "second", "third"))
    assert await one.bind(first, name) == ""
    one.follow_pod(read(api, first))
    assert await one.bind(second, name) == ""
    assert reserved(api, node) == ["second"]
    assert "requested 1, used 1, capacity 1" in await two.bind(third, name)
    cards = {place for each in (first, second) for place in allocated(read(api, each))}
    assert cards == {card("a"), card("b")}


async def test_devices_of_bound_pods_count_although_the_lease_is_missing(
    api: Api, one: ExtenderReplica, node: Json
) -> None:
    first, second = create_pod(api, "first", {CARD: 1}), create_pod(api, "second", {CARD: 1})
    assert await one.bind(first, name_of(node)) == ""
    api.delete(f"{LEASES}/{lease_name(name_of(node))}")
    one.accounts.forget_assumed(first["metadata"]["uid"])
    one.binder.reserver.store.node_changed(msgspec.convert(node, DeviceNode), None)
    assert "requested 1, used 1" in await one.bind(second, name_of(node))


async def test_a_lease_that_someone_deleted_is_not_created_again_from_what_a_replica_remembers(
    api: Api, one: ExtenderReplica, two: ExtenderReplica, node: Json
) -> None:
    """Another replica may have reserved devices in it since; the API server creates a Lease that is updated."""
    for each in (one, two):
        (account,) = each.accounts
        await each.reserver.ensure_lease(account)
    api.delete(f"{LEASES}/{lease_name(name_of(node))}")
    pod = create_pod(api, "waits", {CARD: 1})
    for each in (one, two):
        assert "someone deleted Lease larder-devices-" in await each.bind(pod, name_of(node))
    assert not api.answers(f"{LEASES}/{lease_name(name_of(node))}")


async def test_a_finished_pod_holds_no_devices(api: Api, one: ExtenderReplica, node: Json) -> None:
    first, second = create_pod(api, "first", {CARD: 1}), create_pod(api, "second", {CARD: 1})
    assert await one.bind(first, name_of(node)) == ""
    api.patch(f"{PODS}/first/status", {"status": {"phase": "Succeeded"}})
    assert await one.bind(second, name_of(node)) == ""


async def test_one_of_two_replicas_wins_the_last_device_in_every_race(
    api: Api, one: ExtenderReplica, two: ExtenderReplica, node: Json
) -> None:
    rounds = list[int]()
    for race in range(_RACES):
        pods = [create_pod(api, f"race-{race}-{each}", {CARD: 1}) for each in ("x", "y")]
        answers = await asyncio.gather(one.bind(pods[0], name_of(node)), two.bind(pods[1], name_of(node)))
        bound = [pod for pod in (read(api, pod) for pod in pods) if pod["spec"].get("nodeName")]
        rounds.append(len(bound))
        assert answers.count("") == len(bound), answers
        for pod in pods:
            api.delete(f"{PODS}/{name_of(pod)}", grace_s=0)
    assert rounds == [1] * _RACES
    assert one.conflicts or two.conflicts  # they did meet


async def test_a_failed_binding_releases_the_devices(api: Api, one: ExtenderReplica, node: Json) -> None:
    held = create_pod(api, "held", {CARD: 1}, schedulingGates=[{"name": "test.example.org/held"}])
    error = await one.bind(held, name_of(node))
    assert "was not bound, and its devices are free again" in error
    assert ANNOTATION in read(api, held)["metadata"]["annotations"]
    assert "allocatefrom" not in read(api, held)["metadata"]["annotations"][ANNOTATION]
    assert reserved(api, node) == []
    account = one.accounts.node(name_of(node))
    assert account is not None
    assert not account.pods
    other = create_pod(api, "other", {CARD: 1})
    assert await one.bind(other, name_of(node)) == ""


async def test_a_node_deleted_between_filter_and_bind_is_refused(api: Api, one: ExtenderReplica, node: Json) -> None:
    pod, name = create_pod(api, "late", {CARD: 1}), name_of(node)
    one.accounts.node_changed(msgspec.convert(node, DeviceNode), None)
    assert await one.bind(pod, name) == f"node {name} is gone"
    assert "nodeName" not in read(api, pod)["spec"]


async def test_a_reservation_of_a_dead_replica_expires(kube: Kube, api: Api, node: Json) -> None:
    """The replica died between the reservation and the binding, which may still be in flight."""
    dead, waiting = create_pod(api, "dead", {CARD: 1}), create_pod(api, "waiting", {CARD: 1})
    entry = {
        "runningcontainer": {
            "main": {"requests": {CARD: 1}, "devrequests": {CARD: 1}, "allocatefrom": {CARD: card("a")}}
        }
    }
    record = {
        "namespace": "default",
        "name": "dead",
        "uid": dead["metadata"]["uid"],
        "devices": entry | {"nodename": name_of(node)},
    }
    lease = {
        "metadata": {"name": lease_name(name_of(node)), "annotations": {RESERVED_ANNOTATION: json.dumps([record])}}
    }
    api.create(LEASES, lease | {"spec": {}})
    clock = Clock()
    later = replica(kube, "later", clock=clock)
    later.follow_node(node)
    assert "requested 1, used 1" in await later.bind(waiting, name_of(node))
    clock.now = 121
    assert await later.bind(waiting, name_of(node)) == ""
    assert reserved(api, node) == ["waiting"]


async def test_a_pod_with_a_reservation_of_another_replica_gets_the_same_device(
    kube: Kube, api: Api, node: Json
) -> None:
    name = name_of(node)
    api.patch(
        f"/api/v1/nodes/{name}",
        {"metadata": {"annotations": {ANNOTATION: json.dumps({"allocatable": {card("a"): 1, card("b"): 1}})}}},
    )
    pod = create_pod(api, "doubt", {CARD: 1})
    entry = {
        "runningcontainer": {
            "main": {"requests": {CARD: 1}, "devrequests": {CARD: 1}, "allocatefrom": {CARD: card("a")}}
        }
    }
    record = {
        "namespace": "default",
        "name": "doubt",
        "uid": pod["metadata"]["uid"],
        "devices": entry | {"nodename": name},
    }
    lease = {"metadata": {"name": lease_name(name), "annotations": {RESERVED_ANNOTATION: json.dumps([record])}}}
    api.create(LEASES, lease | {"spec": {}})
    again = replica(kube, "again")
    again.follow_node(api.get(f"/api/v1/nodes/{name}"))
    assert await again.bind(pod, name) == ""
    assert card("a") in read(api, pod)["metadata"]["annotations"][ANNOTATION]


@pytest.mark.parametrize(
    ("claims", "used", "side", "is_refused"),
    [
        ([{"name": "m", "resourceClaimName": "shared"}], ["m"], {}, True),
        ([{"name": "m", "resourceClaimName": "other"}], ["m"], {}, False),  # another driver's device
        ([{"name": "m", "resourceClaimName": "shared"}], [], {}, False),  # only another container uses it
        ([{"name": "m", "resourceClaimName": "shared"}], [], {"example.com/tuner": "1"}, False),  # not Larder's device
        ([{"name": "m", "resourceClaimTemplateName": "models"}], ["m"], {}, False),
    ],
)
async def test_a_container_with_devices_is_kept_from_a_claim_that_other_pods_may_use(
    api: Api, one: ExtenderReplica, node: Json, claims: list[Json], used: list[str], side: Json, *, is_refused: bool
) -> None:
    for name, driver in (("shared", DRIVER), ("other", "gpu.example.com")):
        create_claim(api, name, driver, name_of(node))
    try:
        containers = [
            {"name": "main", "image": "image", "resources": {"claims": [{"name": name} for name in used]}},
            {"name": "side", "image": "image", "resources": {"claims": [{"name": "m"}], "limits": side}},
        ]
        pod = create_pod(api, "claims", {CARD: 1}, containers=containers, resourceClaims=claims)
        problem = await one.bind(pod, name_of(node))
        assert (
            "container main requests devices, which cannot be added to ResourceClaim shared" in problem
        ) is is_refused
        assert bool(problem) is is_refused
        assert bool(read(api, pod)["spec"].get("nodeName")) is not is_refused
        assert api.answers(f"{LEASES}/{lease_name(name_of(node))}") is not is_refused
    finally:
        for name in ("shared", "other"):
            api.delete(f"{CLAIMS}/{name}")


def create_claim(api: Api, name: str, driver: str, node: str) -> None:
    """Create a ResourceClaim without an owner that holds a device on a node, as kube-scheduler leaves it."""
    asked = {"requests": [{"name": "any", "exactly": {"deviceClassName": "any"}}]}
    claim = api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": asked}})
    held = {"request": "any", "driver": driver, "pool": node, "device": "one"}
    claim["status"] = {"allocation": {"devices": {"results": [held]}}}
    api.call("PUT", f"{CLAIMS}/{name}/status", claim)
