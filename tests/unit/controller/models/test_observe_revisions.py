"""What a reconcile observes about a model's revisions: the newest of all that share it, and pending removals."""

import msgspec

from controller.models.observe import ModelObserver
from controller.models.view import PendingRemoval
from controller.state.cluster_state import ClusterState
from shared.api.base_model import ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.wire import EntryProgress
from shared.kube.objects import Key
from tests.builders.cluster import cache, cluster_model, device_claim, entry, entry_status, model_node, pod
from tests.unit.controller.models.conftest import CACHE, MODEL, view


def numbered(number: int, revision: str, **fields: str) -> ClusterModelCache:
    found = cache("m", "g", revision=revision)
    return msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, resolution_number=number, **fields)
    )


def sharing(number: int, revision: str) -> ClusterBaseModel:
    """A base model with the cache's id and source."""
    found = cluster_model("m", {}, uri="hf://org/m:main", uid="second")
    status = msgspec.structs.replace(
        found.status,
        source="hf://org/m@main",
        manifest_digest=revision * 32,
        resolved_revision=revision,
        resolution_number=number,
    )
    return msgspec.structs.replace(found, status=status)


async def test_the_highest_number_counts_for_all_objects_that_share_a_model(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.cluster_model_caches.upsert(numbered(3, "r1"))
    cluster.cluster_base_models.upsert(sharing(4, "r2"))
    kept = view(observer, CACHE).existing
    assert kept is not None
    assert (kept.revision, view(observer, CACHE).highest_number) == ("r2", 4)
    assert (view(observer, MODEL).existing, view(observer, MODEL).highest_number) == (None, 4)


async def test_objects_with_equal_numbers_take_the_same_revision(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.cluster_model_caches.upsert(numbered(4, "r3"))
    cluster.cluster_base_models.upsert(sharing(4, "r2"))
    kept = view(observer, MODEL).existing
    assert kept is not None
    assert kept.revision == "r3"
    assert view(observer, CACHE).existing is None


async def test_objects_with_equal_revisions_take_the_same_list_of_files(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.cluster_model_caches.upsert(numbered(4, "r2", manifest_digest="a" * 64))
    cluster.cluster_base_models.upsert(sharing(4, "r2"))
    kept = view(observer, CACHE).existing
    assert kept is not None
    assert kept.manifest == "r2" * 32
    assert view(observer, MODEL).existing is None


async def test_a_model_that_is_being_deleted_no_longer_counts(observer: ModelObserver, cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(numbered(3, "r1"))
    leaving = sharing(4, "r2")
    meta = msgspec.structs.replace(leaving.metadata, deletion_timestamp="2026-01-02T00:00:00Z")
    cluster.cluster_base_models.upsert(msgspec.structs.replace(leaving, metadata=meta))
    assert view(observer, CACHE).existing is None
    assert view(observer, CACHE).highest_number == 3


async def test_each_node_has_the_status_of_the_new_and_the_serving_revision(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.cluster_model_caches.upsert(numbered(3, "r2", serving_revision="r1"))
    reported = [
        entry_status("m", "Repairing"),
        entry_status("m", "Downloading", "r2"),
        entry_status("other", "Ready", "r9"),
    ]
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r2"), reported=reported))
    one, _ = view(observer, CACHE).nodes
    assert one.status is not None
    assert one.serving is not None
    assert (one.status.phase, one.serving.phase, one.revisions) == ("Downloading", "Repairing", ("r1",))
    assert view(observer, CACHE).removals == ()
    cluster.model_nodes.upsert(
        model_node("a", entry("m"), reported=[entry_status("m"), entry_status("m", revision="r2")])
    )
    assert view(observer, CACHE).nodes[0].revisions == ("r1", "r2")


async def test_pending_removals_name_the_pods_that_keep_old_files(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r0")))
    assert view(observer, CACHE).removals == (), "users have not been listed yet"
    cluster.model_pods.upsert(pod("p", "a", [("m", "r0")]))
    cluster.model_pods.upsert(pod("done", "a", [("m", "r0")], phase="Succeeded"))
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r0", in_use=True, users=("ns/p",)),)
    cluster.resource_claims.upsert(device_claim("c", ("m", "r0"), "a", "q"))
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r0", in_use=True, users=("ns/p", "ns/q")),)
    cluster.resource_claims.remove(Key("ns", "c"))
    cluster.model_pods.remove(pod("p", "a").key)
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r0", in_use=True)))
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r0", in_use=True),)


async def test_a_pending_removal_has_its_progress_in_bytes(observer: ModelObserver, cluster: ClusterState) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r0", state="Absent")))
    observer.progress.report("a", [EntryProgress("m", "r0", 3, 9)], {("m", "r0"): 9})
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r0", done_bytes=3, total_bytes=9),)
    cluster.model_nodes.upsert(model_node("a", entry("m", state="Draining")))
    cluster.cluster_model_caches.upsert(cache("m", "g", deletion_timestamp="2026-01-02T00:00:00Z"))
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r1"),)


async def test_a_removal_from_a_node_without_a_ready_agent_waits(
    observer: ModelObserver, cluster: ClusterState
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m"), entry("m", "r0", state="Draining")))
    cluster.agents.upsert(pod("agent", "a", ready=False))
    assert view(observer, CACHE).removals == (PendingRemoval("a", "r0", agent_away=True),)
    cluster.model_nodes.upsert(model_node("b", entry("m"), entry("m", "r0", state="Draining")))
    cluster.agents.upsert(pod("agent-b", "b"))
    assert view(observer, CACHE).removals[1] == PendingRemoval("b", "r0", agent_away=True), "the node is not Ready"


async def test_entries_of_other_models_are_not_pending_removals(observer: ModelObserver, cluster: ClusterState) -> None:
    foreign = msgspec.structs.replace(entry("m", "r0", state="Draining"), claims=[])
    cluster.model_nodes.upsert(model_node("a", entry("m"), foreign, entry("other", state="Draining")))
    assert view(observer, CACHE).removals == ()
