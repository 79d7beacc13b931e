"""A ModelNode is replaced only if the live Node confirms it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.manager.event_recorder import EventRecorder
from controller.nodes.act import NodeActor
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.eviction_recorder import EvictionMetrics, EvictionRecorder
from controller.nodes.observe import NodeObserver
from controller.nodes.reconcile import NodeReconciler
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.live_reader import LiveReader
from shared.api.core import NODES
from shared.api.model_node import PATH
from tests.builders.api_server import Objects, serving
from tests.builders.cluster import fresh_cluster, model_node, node


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
async def rig(objects: Objects, tmp_path: Path) -> AsyncIterator[tuple[ClusterState, NodeReconciler]]:
    cluster = fresh_cluster()
    async with serving(objects, tmp_path) as kube:
        observer = NodeObserver(
            cluster,
            kube,
            LiveReader(kube),
            "/var/lib/larder",
            ResourceClaimUsers(kube, enabled=False),
            ResourceSliceReader(kube, enabled=False),
        )
        evictions = EvictionRecorder(
            EventRecorder(kube, lambda: datetime.now(UTC)), EvictionMetrics(CollectorRegistry()).count_eviction
        )
        yield cluster, NodeReconciler(observer, NodeActor(kube), evictions, lambda: datetime.now(UTC), RemovalTiming())


@pytest.mark.parametrize(("live_uid", "deletes"), [("uid-new", True), ("uid-newest", False), ("", False)])
async def test_the_model_node_of_an_earlier_node_is_deleted_only_after_a_live_read(
    rig: tuple[ClusterState, NodeReconciler],
    objects: Objects,
    live_uid: str,
    deletes: bool,  # noqa: FBT001 - the expectation
) -> None:
    cluster, reconciler = rig
    cluster.nodes.upsert(node("a", uid="uid-new"))
    cluster.model_nodes.upsert(model_node("a"))  # of the Node with the uid uid-a
    if live_uid:
        objects.objects[f"{NODES}/a"] = msgspec.to_builtins(node("a", uid=live_uid))
    assert await reconciler.reconcile("a") == 0.5
    assert (f"DELETE {PATH}/a" in objects.asked) is deletes


async def test_a_deleted_node_causes_no_requests(rig: tuple[ClusterState, NodeReconciler], objects: Objects) -> None:
    assert await rig[1].reconcile("gone") is None
    assert objects.asked == []
