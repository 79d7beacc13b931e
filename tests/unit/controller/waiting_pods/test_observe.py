"""What a decision about waiting pods is based on."""

from typing import Any

import pytest

from controller.state.cluster_state import ClusterState
from controller.state.progress import ProgressTracker
from controller.waiting_pods.observe import WaitingPodsObserver
from controller.waiting_pods.view import MissingFiles, WaitingPod, WaitingView
from shared.api.core import Affinity, Pod
from shared.api.wire import EntryProgress
from shared.names import ready_label, snapshot_label
from tests.builders.cluster import (
    cache,
    entry,
    entry_status,
    fresh_cluster,
    group,
    meta,
    model_node,
    node,
)
from tests.builders.cluster import pod as running_pod
from tests.builders.waiting_pods import FILES, KEY, POOL, waiting_pod


@pytest.fixture
def cluster() -> ClusterState:
    cluster = fresh_cluster()
    cluster.groups.upsert(group("gpus", POOL))
    cluster.nodes.upsert(node("a", POOL))
    cluster.cluster_model_caches.upsert(cache("m", "gpus"))
    return cluster


@pytest.fixture
def progress() -> ProgressTracker:
    return ProgressTracker(lambda: 0.0, lambda *_: None)


@pytest.fixture
def observer(cluster: ClusterState, progress: ProgressTracker) -> WaitingPodsObserver:
    return WaitingPodsObserver(cluster, progress)


async def only(observer: WaitingPodsObserver) -> WaitingPod:
    (found,) = (await observer.view(KEY)).pods
    return found


async def view(observer: WaitingPodsObserver, *pods: Pod) -> WaitingView:
    for pod in pods:
        observer.cluster.model_pods.upsert(pod)
    return await observer.view(KEY)


async def test_a_gated_pod_fits_once_a_node_that_it_may_run_on_has_all_its_models(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    cluster.model_pods.upsert(waiting_pod(gated=True, selector={"zone": "1"}, models="m@r1,n@r2"))
    assert not (await only(observer)).fits
    cluster.nodes.upsert(node("a", POOL | FILES | {"zone": "1"}))
    assert not (await only(observer)).fits
    both = FILES | {ready_label("n"): "true", snapshot_label("n", "r2"): "true"}
    cluster.nodes.upsert(node("b", POOL | both))
    assert not (await only(observer)).fits
    cluster.nodes.upsert(node("a", POOL | both | {"zone": "1"}))
    found = await only(observer)
    assert (found.fits, found.placement, found.gated) == (True, "gated", True)


async def test_the_required_affinity_of_a_pod_is_honoured(observer: WaitingPodsObserver, cluster: ClusterState) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}
    affinity = Affinity(node_affinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}})
    cluster.model_pods.upsert(waiting_pod(gated=True, affinity=affinity))
    cluster.nodes.upsert(node("a", POOL | FILES | {"zone": "1"}))
    assert not (await only(observer)).fits
    cluster.nodes.upsert(node("a", POOL | FILES | {"zone": "2"}))
    assert (await only(observer)).fits


async def test_requirements_too_long_to_check_are_left_to_the_scheduler(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    term = {"matchExpressions": [{"key": "never", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 20_000}}
    selector = {f"never-{i}": "true" for i in range(20_000)}
    cluster.model_pods.upsert(waiting_pod(gated=True, selector=selector, affinity=Affinity(node_affinity=affinity)))
    cluster.nodes.upsert(node("a", POOL | FILES))
    found = await only(observer)
    assert found.fits
    assert (found.pod.spec.affinity, found.pod.spec.node_selector) == (Affinity(), {})


async def test_a_few_of_many_pods_are_checked_in_each_run_and_all_in_the_end(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    cluster.nodes.upsert(node("a", POOL | FILES))
    for i in range(250):
        cluster.model_pods.upsert(waiting_pod(f"p{i:03}", gated=True, selector={"never": str(i)}))
    cluster.model_pods.upsert(waiting_pod("q", gated=True))
    found = list[str]()
    for _ in range(3):
        seen = await observer.view(KEY)
        found += [w.pod.metadata.name for w in seen.pods if w.fits]
        assert seen.undecided
    assert "q" in found


async def test_the_more_nodes_have_the_files_the_fewer_pods_are_checked_in_a_run(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    for i in range(400):
        cluster.nodes.upsert(node(f"n{i}", POOL | FILES))
    for i in range(50):
        cluster.model_pods.upsert(waiting_pod(f"p{i:03}", gated=True, selector={"never": str(i)}))
    assert not (await observer.view(KEY)).undecided
    cluster.model_pods.upsert(waiting_pod("q", gated=True))
    assert (await observer.view(KEY)).undecided
    assert [w.pod.metadata.name for w in (await observer.view(KEY)).pods if w.fits] == ["q"]


async def test_a_thousand_pods_of_one_workload_need_a_single_check(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    cluster.nodes.upsert(node("a", POOL | FILES))
    for i in range(1000):
        cluster.model_pods.upsert(waiting_pod(f"p{i}", gated=True))
    seen = await observer.view(KEY)
    assert (sum(w.fits for w in seen.pods), seen.undecided) == (1000, False)


async def test_a_pod_on_a_node_lacks_the_files_until_the_node_has_them(
    observer: WaitingPodsObserver, cluster: ClusterState, progress: ProgressTracker
) -> None:
    cluster.model_pods.upsert(waiting_pod("p", "a", placement="preferred", on_missing="fail"))
    found = await only(observer)
    assert (found.missing, found.placement, found.fails) == (MissingFiles("a"), "preferred", True)
    cluster.model_nodes.upsert(model_node("a", entry("m", size=100), reported=[entry_status("m", "Downloading")]))
    assert (await only(observer)).missing == MissingFiles("a", phase="Downloading", total_bytes=100)
    progress.report("a", [EntryProgress("m", "r1", 40, 90)], {KEY.snapshot: 100})
    assert (await only(observer)).missing == MissingFiles("a", phase="Downloading", done_bytes=40, total_bytes=90)
    failed = entry_status("m", "Failed", reason="InsufficientStorage", message="too big")
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[failed]))
    missing = (await only(observer)).missing
    assert missing is not None
    assert (missing.phase, missing.reason, missing.message) == ("Failed", "InsufficientStorage", "too big")
    for phase in ("Ready", "Repairing", "Draining"):
        cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[entry_status("m", phase)]))
        assert (await only(observer)).missing is None


async def test_the_labels_count_even_if_the_status_lags(observer: WaitingPodsObserver, cluster: ClusterState) -> None:
    cluster.model_pods.upsert(waiting_pod("p", "a"))
    cluster.nodes.upsert(node("a", POOL | FILES))
    assert (await only(observer)).missing is None


async def test_a_deleted_or_unready_node_is_reported(observer: WaitingPodsObserver, cluster: ClusterState) -> None:
    cluster.model_pods.upsert(waiting_pod("p", "a"))
    cluster.nodes.upsert(node("a", POOL, ready=False))
    assert (await only(observer)).missing == MissingFiles("a", node_ready=False)
    cluster.nodes.remove(node("a").key)
    assert (await only(observer)).missing == MissingFiles("a", node_ready=False)


async def test_a_node_that_will_not_get_the_files_is_reported_with_the_reason(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    async def obstacle() -> str:
        missing = (await only(observer)).missing
        return missing.obstacle if missing else ""

    cluster.model_pods.upsert(waiting_pod("p", "a"))
    assert await obstacle() == ""  # about to be listed
    cluster.unplaced.set("a", {KEY.snapshot: "too many models"})
    assert await obstacle() == "too many models"
    cluster.unplaced.set("a", {})
    cluster.nodes.upsert(node("a", {"pool": "cpu"}))
    assert "does not select this node" in await obstacle()
    cluster.nodes.upsert(node("a", POOL))
    cluster.cluster_model_caches.upsert(cache("m", "gpus", revision="r2"))
    assert "no other node gets this revision" in await obstacle()
    cluster.model_nodes.upsert(model_node("b", entry("m", manifest="d" * 64)))
    assert await obstacle() == ""


async def test_the_view_shows_whether_a_revision_can_still_arrive(
    observer: WaitingPodsObserver, cluster: ClusterState
) -> None:
    seen = await view(observer, waiting_pod())
    assert (seen.declared, seen.obtainable, seen.on_some_node, seen.serving) == (True, True, False, "r1")
    cluster.cluster_model_caches.upsert(cache("m", "gpus", revision="r2"))
    seen = await view(observer)
    assert (seen.declared, seen.obtainable, seen.serving) == (True, False, "r2")
    cluster.nodes.upsert(node("a", POOL | FILES))
    seen = await view(observer)
    assert (seen.obtainable, seen.on_some_node) == (True, True)
    cluster.cluster_model_caches.upsert(cache("m", "gpus", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert not (await view(observer)).declared


async def test_pods_are_listed_in_order_of_creation(observer: WaitingPodsObserver, cluster: ClusterState) -> None:
    for name, created in (("new", "2026-01-02T00:00:00Z"), ("old", "2026-01-01T00:00:00Z")):
        fields: dict[str, Any] = {"creation_timestamp": created, "annotations": {"larder.dev/models": "m@r1"}}
        cluster.model_pods.upsert(Pod(metadata=meta(name, namespace="ns", **fields)))
    seen = await observer.view(KEY, {"uid-old"})
    assert [(w.pod.metadata.name, w.notified) for w in seen.pods] == [("old", True), ("new", False)]


async def test_it_is_known_how_long_the_node_of_a_waiting_pod_has_had_no_agent() -> None:
    now_s = [0.0]
    cluster = fresh_cluster(lambda: now_s[0])
    cluster.nodes.upsert(node("a", POOL))
    cluster.model_pods.upsert(waiting_pod(node_name="a"))
    observer = WaitingPodsObserver(cluster, ProgressTracker(lambda: 0.0, lambda *_: None))
    assert (await only(observer)).missing == MissingFiles("a")
    now_s[0] = 300.0
    assert (await only(observer)).missing == MissingFiles("a", agent_away_s=300.0)
    cluster.agents.upsert(running_pod("agent", "a"))
    assert (await only(observer)).missing == MissingFiles("a")
