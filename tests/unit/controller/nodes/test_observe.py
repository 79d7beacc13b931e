"""What a reconcile of a node observes, from the cache and from live reads."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.nodes.observe import NodeObserver
from controller.nodes.view import NodeView
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader, object_path
from shared.api.core import NODES, PODS
from shared.api.kinds import NODE_GROUP
from shared.api.model_node import EntryStatus, ModelNode
from shared.dra import DRIVER, RESOURCE_CLAIMS, SLICES, device_name
from shared.names import snapshot_path
from tests.builders.api_server import Objects, listed, serving
from tests.builders.clock import Clock
from tests.builders.cluster import cache, device_claim, entry, entry_status, fresh_cluster, group, model_node, node, pod

NOW = datetime(2026, 6, 1, tzinfo=UTC)
KEY = ("m", "r1")


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> ClusterState:
    cluster = fresh_cluster(clock)
    cluster.nodes.upsert(node("a", {"pool": "gpu"}))
    cluster.groups.upsert(group("gpus", {"pool": "gpu"}))
    cluster.cluster_model_caches.upsert(cache("m", "other", "gpus"))
    return cluster


@pytest.fixture
async def observer(cluster: ClusterState, objects: Objects, tmp_path: Path) -> AsyncIterator[NodeObserver]:
    async with serving(objects, tmp_path) as kube:
        yield NodeObserver(
            cluster,
            kube,
            LiveReader(kube),
            "/var/lib/larder",
            ResourceClaimUsers(kube, enabled=True),
            ResourceSliceReader(kube, enabled=True),
        )


def view(observer: NodeObserver, *granted: str, now: datetime = NOW) -> NodeView:
    seen = observer.view("a", granted, now)
    assert seen is not None
    return seen


async def test_only_nodes_of_limited_groups_wait_for_a_grant(observer: NodeObserver, cluster: ClusterState) -> None:
    assert view(observer).granted
    cluster.groups.upsert(group("gpus", {"pool": "gpu"}, max_concurrent_nodes=1))
    assert not view(observer).granted  # even before the downloading nodes have been counted
    assert view(observer, "a").granted


async def test_claims_record_the_group_that_selected_the_node(observer: NodeObserver) -> None:
    assert view(observer).group_of == {"uid-m": "gpus"}


async def test_a_deleted_node_has_no_view(observer: NodeObserver, cluster: ClusterState) -> None:
    cluster.nodes.remove(node("a").key)
    assert observer.view("a", (), NOW) is None


async def test_models_in_use_are_found_in_memory_and_by_live_reads(
    observer: NodeObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m")))
    cluster.model_pods.upsert(pod("p", "a", [KEY]))
    assert view(observer).in_use == {KEY}
    volumes = [{"name": "m", "hostPath": {"path": f"/var/lib/larder/{snapshot_path(*KEY)}"}}]
    objects.objects[PODS] = listed({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"volumes": volumes}})
    assert (await observer.with_users(view(observer))).users == {KEY: ("ns/p",)}


async def test_claims_that_hold_a_device_are_users_beside_pods_that_mount(
    observer: NodeObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("other")))
    result = {"driver": DRIVER, "pool": "a", "device": device_name(*KEY)}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    objects.objects[PODS] = listed()
    objects.objects[RESOURCE_CLAIMS] = listed({"metadata": {"name": "c", "namespace": "ns"}, "status": status})
    assert (await observer.with_users(view(observer))).users == {KEY: ("ns/p",)}


async def test_a_claim_that_holds_a_model_is_a_use_from_memory_until_it_is_released(
    observer: NodeObserver, cluster: ClusterState
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("other")))
    cluster.resource_claims.upsert(device_claim("c", KEY, "a", "p"))
    assert view(observer).in_use == {KEY}
    cluster.resource_claims.upsert(device_claim("c", KEY, "b", "p"))
    assert view(observer).in_use == frozenset()


async def test_a_pods_model_is_awaited_on_its_node_until_it_is_ready(
    observer: NodeObserver, cluster: ClusterState
) -> None:
    cluster.model_pods.upsert(pod("p", "a", [KEY], annotations={"larder.dev/models": "m@r1"}))
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[entry_status("m", "Downloading")]))
    assert view(observer).awaited == {KEY}
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[entry_status("m", "Ready")]))
    assert view(observer).awaited == frozenset()


async def test_a_pod_with_a_forged_annotation_waits_for_nothing(observer: NodeObserver, cluster: ClusterState) -> None:
    forged = {"larder.dev/models": "m@r1,other_secret@r1"}
    cluster.model_pods.upsert(pod("p", "a", annotations=forged))
    cluster.model_pods.upsert(pod("q", "a", [("other_secret", "r1")], annotations=forged))
    cluster.model_nodes.upsert(model_node("a", entry("m")))
    assert view(observer).awaited == frozenset()


async def test_an_entry_that_a_pod_waits_for_is_restored_from_another_node(
    observer: NodeObserver, cluster: ClusterState
) -> None:
    old = ("m", "r0")
    cluster.model_pods.upsert(pod("p", "a", [old], annotations={"larder.dev/models": "m@r0"}))
    assert view(observer).awaited == {old}
    assert view(observer).restored == {}
    there = entry("m", "r0", manifest="d" * 64)
    cluster.model_nodes.upsert(model_node("b", there))
    assert view(observer).restored == {old: there}


async def test_a_revision_is_not_restored_ten_minutes_after_it_stopped_serving(
    observer: NodeObserver, cluster: ClusterState, clock: Clock
) -> None:
    old = ("m", "r0")
    cluster.cluster_model_caches.upsert(cache("m", "other", "gpus", revision="r0"))
    clock.now += 10_000
    cluster.cluster_model_caches.upsert(cache("m", "other", "gpus"))
    cluster.model_pods.upsert(pod("p", "a", [old], annotations={"larder.dev/models": "m@r0"}))
    cluster.model_nodes.upsert(model_node("b", entry("m", "r0", manifest="d" * 64)))
    clock.now += 599
    assert view(observer).restored
    clock.now += 1
    assert view(observer).awaited == {old}
    assert view(observer).restored == {}


async def test_a_revision_that_no_longer_serves_is_held_for_pods_without_a_node(
    observer: NodeObserver, cluster: ClusterState
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r0")))
    assert view(observer).held == {}
    cluster.model_pods.upsert(pod("p", "", phase="Pending", annotations={"larder.dev/models": "m@r0"}))
    assert view(observer).held == {("m", "r0"): 600}
    cluster.model_pods.upsert(pod("p", "a", phase="Pending", annotations={"larder.dev/models": "m@r0"}))
    assert view(observer).held == {}


def drains(
    since: str = "2026-06-01T00:00:00Z", observed: str = "Draining", generation: int = 1, observed_generation: int = 1
) -> ModelNode:
    reported = EntryStatus(id="m", revision="r1", phase="Draining", observed=observed)
    leaving = entry("m", state="Draining", since=since)
    found = model_node("a", leaving, reported=[reported], observed_generation=observed_generation)
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, generation=generation))


async def closed(observer: NodeObserver, now: datetime = NOW) -> NodeView:
    """The view with the devices that the driver offers."""
    return await observer.with_resource_slices(view(observer, now=now), now)


def offering(*taints: str) -> dict[str, Any]:
    """A slice of node a with the model as a device."""
    taints_json = [{"key": key, "effect": "NoSchedule"} for key in taints]
    device = {"name": device_name(*KEY), "taints": taints_json}
    return listed({"metadata": {"name": "s"}, "spec": {"nodeName": "a", "devices": [device]}})


async def test_a_drain_is_acknowledged_once_the_driver_no_longer_offers_the_model(
    observer: NodeObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.model_nodes.upsert(drains())
    objects.objects[SLICES] = offering()
    seen = await closed(observer)
    assert (seen.acknowledged, seen.offered) == ({}, {KEY: NOW})
    later = NOW + timedelta(seconds=20)
    objects.objects[SLICES] = offering("larder.dev/leaving")
    seen = await closed(observer, later)
    assert (seen.acknowledged, seen.offered) == ({KEY: later}, {})
    assert view(observer, now=later + timedelta(seconds=9)).acknowledged == {KEY: later}


async def test_a_drain_waits_two_minutes_for_a_driver_that_keeps_offering_the_model(
    observer: NodeObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.model_nodes.upsert(drains())
    objects.objects[SLICES] = offering()
    await closed(observer)
    assert (await closed(observer, NOW + timedelta(seconds=119))).acknowledged == {}
    late = NOW + timedelta(seconds=120)
    assert (await closed(observer, late)).acknowledged == {KEY: late}


async def test_claims_are_not_read_if_models_are_not_devices(
    cluster: ClusterState, objects: Objects, tmp_path: Path
) -> None:
    cluster.model_nodes.upsert(drains())
    async with serving(objects, tmp_path) as kube:
        users, offers = ResourceClaimUsers(kube, enabled=False), ResourceSliceReader(kube, enabled=False)
        seen = view(NodeObserver(cluster, kube, LiveReader(kube), "/var/lib/larder", users, offers))
    assert (seen.acknowledged, seen.offered) == ({KEY: NOW}, {})


async def test_the_acknowledgement_of_a_drain_counts_from_its_first_observation(
    observer: NodeObserver, cluster: ClusterState
) -> None:
    later = NOW + timedelta(seconds=20)
    cluster.model_nodes.upsert(drains(observed="Present"))
    assert view(observer).acknowledged == {}
    cluster.model_nodes.upsert(drains())
    assert (await closed(observer)).acknowledged == {KEY: NOW}
    assert view(observer, now=later).acknowledged == {KEY: NOW}


async def test_a_new_drain_needs_a_new_acknowledgement(observer: NodeObserver, cluster: ClusterState) -> None:
    later = NOW + timedelta(seconds=20)
    cluster.model_nodes.upsert(drains())
    assert (await closed(observer)).acknowledged == {KEY: NOW}
    again = "2026-06-01T00:00:15Z"
    cluster.model_nodes.upsert(drains(again, generation=3))
    assert (await closed(observer)).acknowledged == {}, "this is the status of the drain before"
    cluster.model_nodes.upsert(drains(again, generation=4, observed_generation=2))
    assert (await closed(observer)).acknowledged == {}
    cluster.model_nodes.upsert(drains(again, generation=4, observed_generation=3))
    assert (await closed(observer, later)).acknowledged == {KEY: later}
    cluster.model_nodes.upsert(model_node("a"))
    assert view(observer, now=later).acknowledged == {}
    assert observer.acks._seen == {}


async def test_live_reads_protect_pinned_models_from_eviction(
    observer: NodeObserver, cluster: ClusterState, objects: Objects
) -> None:
    leaving = [entry(name, state="Draining", evicted_for="new") for name in ("m", "pinned")]
    cluster.model_nodes.upsert(model_node("a", *leaving, entry("unwanted", state="Draining")))
    lru = group("gpus", {"pool": "gpu"}, eviction_policy="LeastRecentlyUsed")
    pinned = cache("pinned", "gpus", annotations={"larder.dev/pin": "true"})
    live = {
        f"{NODES}/a": node("a", {"pool": "gpu"}),
        f"{NODE_GROUP.path}/gpus": lru,
        object_path(ModelKey("ClusterModelCache", "", "m")): cache("m", "gpus"),
        object_path(ModelKey("ClusterModelCache", "", "pinned")): pinned,
    }
    objects.objects |= {path: msgspec.to_builtins(found) for path, found in live.items()}
    objects.objects[NODE_GROUP.path] = listed(msgspec.to_builtins(lru))
    keys = [("m", "r1"), ("pinned", "r1"), ("unwanted", "r1")]
    seen = await observer.with_unwanted(view(observer), keys)
    assert seen.unwanted == frozenset({("m", "r1"), ("unwanted", "r1")})
    assert seen.protected == {("pinned", "r1")}
