"""What a reconcile of a model observes, all of it from the cache."""

import msgspec

from controller.models.observe import ModelObserver
from controller.nodes.keys import NodeKey
from controller.placement.demand import Resolution
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.model_node import ModelNode, ModelNodeSpec
from shared.api.wire import EntryProgress
from shared.kube.objects import Meta
from tests.builders.cluster import (
    DIGEST,
    WokenKeys,
    cache,
    cluster_model,
    entry,
    entry_status,
    model_node,
    pod,
)
from tests.unit.controller.models.conftest import CACHE, MODEL, view


async def test_target_nodes_have_readiness_status_and_progress(observer: ModelObserver, cluster: ClusterState) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[entry_status("m", "Downloading")]))
    observer.progress.report("a", [EntryProgress("m", "r1", 3, 9)], {("m", "r1"): 9})
    one, other = view(observer, CACHE).nodes
    assert (one.name, one.ready, one.agent_ready, one.done_bytes, one.total_bytes) == ("a", True, True, 3, 9)
    assert one.status is not None
    assert one.status.phase == "Downloading"
    assert (other.name, other.ready, other.agent_ready, other.status) == ("b", False, False, None)


async def test_only_nodes_with_a_running_agent_delay_a_deletion(observer: ModelObserver, cluster: ClusterState) -> None:
    for name in ("a", "b"):
        cluster.model_nodes.upsert(model_node(name, entry("m")))
    assert view(observer, CACHE).remaining == ()
    cluster.cluster_model_caches.upsert(cache("m", "g", deletion_timestamp="2026-01-02T00:00:00Z"))
    assert view(observer, CACHE).remaining == ("a",)
    cluster.agents.remove(pod("agent", "a").key)
    assert view(observer, CACHE).remaining == ()


async def test_a_second_object_of_the_same_source_adopts_the_existing_resolution(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(cluster_model("m", {}, uri="hf://org/m:main", uid="second"))
    assert view(observer, MODEL).existing == Resolution("hf://org/m@main", "r1", DIGEST, 10)
    assert view(observer, CACHE).existing is None


async def test_a_reserved_entry_is_reused_only_if_the_model_allows_reuse(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    reserved = entry("kept", "r0", claims=[], manifest=DIGEST, size=7)
    cluster.model_nodes.upsert(model_node("a", reserved))
    model = cluster_model("kept", {})
    key = ModelKey("ClusterBaseModel", "", "kept")
    cluster.cluster_base_models.upsert(model)
    assert view(observer, key).existing is None
    storage = msgspec.structs.replace(model.spec.storage, download_policy="ReuseIfExists")
    again = cluster_model("kept", {})
    spec = msgspec.structs.replace(again.spec, storage=storage)
    cluster.cluster_base_models.upsert(msgspec.structs.replace(again, spec=spec))
    assert view(observer, key).existing == Resolution("hf://org/kept@main", "r0", DIGEST, 7)


async def test_the_loser_of_a_conflict_has_no_nodes(observer: ModelObserver, cluster: ClusterState) -> None:
    cluster.cluster_base_models.upsert(
        cluster_model("m", {}, uri="s3://bucket/m", uid="later", creation_timestamp="2026-06-01T00:00:00Z")
    )
    seen = view(observer, MODEL)
    assert seen.conflict is not None
    assert (seen.conflict.kind, seen.nodes, seen.existing) == ("ClusterModelCache", (), None)


def test_a_foreign_model_node_is_reported_until_it_is_deleted(cluster: ClusterState, observer: ModelObserver) -> None:
    theirs = ModelNode(metadata=Meta(name="a", uid="theirs"), spec=ModelNodeSpec(node_uid="uid-elsewhere"))
    cluster.model_nodes.upsert(theirs)
    reported = {n.name: n.obstacle for n in view(observer, CACHE).nodes}
    assert reported["b"] is None
    assert reported["a"] is not None
    assert (reported["a"].reason, "kubectl delete modelnode a" in reported["a"].message) == ("NameConflict", True)
    woken = WokenKeys(cluster)
    cluster.model_nodes.remove(theirs.key)
    assert {CACHE, NodeKey("a")} <= woken.take()
    assert [n.obstacle for n in view(observer, CACHE).nodes] == [None, None]
