"""Every kind of change queues exactly the keys that it affects."""

import pytest

from controller.manager.controller import QueueKey
from controller.state.cluster_state import ClusterState
from controller.waiting_pods.keys import WaitingKey
from shared.names import ready_label, snapshot_label, uses_label
from tests.builders.cluster import (
    GRANTS,
    WokenKeys,
    cache,
    caches,
    cluster_model,
    cluster_models,
    entry,
    entry_status,
    fresh_cluster,
    group,
    groups,
    model_node,
    node,
    nodes,
    pod,
)

GPU, CPU = {"pool": "gpu"}, {"pool": "cpu"}


@pytest.fixture
def cluster() -> ClusterState:
    """Two nodes in a group with a cache, one node outside with a model of its own."""
    return fresh_cluster()


@pytest.fixture
def woken(cluster: ClusterState) -> WokenKeys:
    woken = WokenKeys(cluster)
    for name, labels in (("a", GPU), ("b", GPU), ("c", CPU)):
        cluster.nodes.upsert(node(name, labels))
        cluster.agents.upsert(pod(f"agent-{name}", name))
    cluster.groups.upsert(group("gpus", GPU))
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    cluster.cluster_base_models.upsert(cluster_model("tiny", CPU))
    for name in ("a", "b"):
        cluster.model_nodes.upsert(model_node(name, entry("llama"), reported=[entry_status("llama")]))
    cluster.model_nodes.upsert(model_node("c", entry("tiny", kind="ClusterBaseModel")))
    woken.take()
    return woken


def test_a_new_leader_wakes_every_key(woken: WokenKeys) -> None:
    woken.enqueue_all()
    assert woken.take() == nodes("a", "b", "c") | caches("llama") | cluster_models("tiny") | groups("gpus") | GRANTS


def test_a_new_model_wakes_its_key_and_its_nodes(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_model_caches.upsert(cache("mistral", "gpus"))
    assert woken.take() == caches("mistral") | nodes("a", "b")


def test_a_reworded_status_wakes_only_the_model(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    assert woken.take() == caches("llama")


def test_a_new_revision_wakes_the_nodes(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_model_caches.upsert(cache("llama", "gpus", revision="r2"))
    assert woken.take() == caches("llama") | nodes("a", "b")


def test_a_model_that_moves_wakes_its_old_and_new_nodes(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_base_models.upsert(cluster_model("tiny", GPU))
    assert woken.take() == cluster_models("tiny") | nodes("a", "b", "c")


def test_the_removal_of_a_model_wakes_nodes_that_list_it_without_being_targets(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    cluster.nodes.upsert(node("c", {"pool": "other"}))
    woken.take()
    cluster.cluster_base_models.upsert(cluster_model("tiny", CPU, deletion_timestamp="2026-02-01T00:00:00Z"))
    assert woken.take() == cluster_models("tiny") | nodes("c")


def test_models_in_an_id_conflict_wake_each_other_and_their_nodes(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_base_models.upsert(cluster_model("llama", CPU, uri="s3://bucket/other", uid="other"))
    assert woken.take() == caches("llama") | cluster_models("llama") | nodes("a", "b", "c")
    cluster.cluster_model_caches.remove(cache("llama").key)
    assert woken.take() == caches("llama") | cluster_models("llama") | nodes("a", "b", "c")


def test_a_heartbeat_and_our_own_labels_wake_nothing(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.nodes.upsert(node("a", GPU | {ready_label("llama"): "true", snapshot_label("llama", "r1"): "true"}))
    assert woken.take() == set()


@pytest.mark.parametrize("change", ["not ready", "another uid", "gone"])
def test_a_node_wakes_its_models_and_groups(cluster: ClusterState, woken: WokenKeys, change: str) -> None:
    match change:
        case "not ready":
            cluster.nodes.upsert(node("a", GPU, ready=False))
        case "another uid":
            cluster.nodes.upsert(node("a", GPU, uid="another"))
        case _:
            cluster.nodes.remove(node("a").key)
    assert woken.take() == nodes("a") | caches("llama") | groups("gpus") | GRANTS


def test_a_node_that_is_relabelled_wakes_what_it_leaves_and_joins(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.nodes.upsert(node("c", GPU))
    assert woken.take() == nodes("c") | caches("llama") | cluster_models("tiny") | groups("gpus") | GRANTS


def test_a_node_wakes_models_that_wait_to_be_deleted(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_model_caches.upsert(cache("llama", "gpus", deletion_timestamp="2026-02-01T00:00:00Z"))
    woken.take()
    cluster.nodes.upsert(node("c", CPU, ready=False))
    assert woken.take() == nodes("c") | caches("llama") | cluster_models("tiny") | GRANTS


def test_changed_usage_figures_wake_only_the_groups(cluster: ClusterState, woken: WokenKeys) -> None:
    reported = model_node("a", entry("llama"), reported=[entry_status("llama")], used=5)
    cluster.model_nodes.upsert(reported)
    assert woken.take() == groups("gpus")
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama")], used=5, disk_free=7))
    assert woken.take() == set()


def test_a_phase_wakes_the_model_the_node_and_the_grants(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama", "Repairing")]))
    assert woken.take() == nodes("a") | caches("llama") | GRANTS


def test_a_report_of_a_new_node_of_the_same_name_wakes_everything_about_it(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama")], node_uid="another"))
    assert woken.take() == nodes("a") | caches("llama") | groups("gpus") | GRANTS


def test_a_spec_wakes_the_models_that_it_no_longer_lists(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.model_nodes.upsert(model_node("a", reported=[entry_status("llama")]))
    assert woken.take() == nodes("a") | caches("llama") | GRANTS


def test_the_removal_of_a_model_node_wakes_all_its_entries(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.model_nodes.remove(model_node("a").key)
    assert woken.take() == nodes("a") | caches("llama") | groups("gpus") | GRANTS


def test_the_status_of_a_group_wakes_nothing(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.groups.upsert(group("gpus", GPU))
    assert woken.take() == set()


def test_the_limit_of_a_group_wakes_its_nodes_models_and_groups_that_share_nodes(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    cluster.groups.upsert(group("all", {}))
    assert woken.take() == nodes("a", "b", "c") | groups("gpus", "all") | GRANTS
    cluster.groups.upsert(group("gpus", GPU, storage_limit="2Gi"))
    assert woken.take() == nodes("a", "b") | caches("llama") | groups("gpus", "all") | GRANTS


def test_the_selector_of_a_group_wakes_old_and_new_members(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.groups.upsert(group("gpus", CPU))
    assert woken.take() == nodes("a", "b", "c") | caches("llama") | groups("gpus") | GRANTS


def test_the_removal_of_a_group_wakes_its_members(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.groups.remove(group("gpus", GPU).key)
    assert woken.take() == nodes("a", "b") | caches("llama") | groups("gpus") | GRANTS


def test_an_agent_that_starts_or_stops_wakes_node_models_and_grants(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.agents.upsert(pod("agent-a", "a", ready=False))
    assert woken.take() == nodes("a") | caches("llama") | GRANTS
    cluster.agents.upsert(pod("agent-a", "a", ready=False, labels={"x": "y"}))
    assert woken.take() == set()
    cluster.agents.upsert(pod("agent-a2", "a"))
    assert woken.take() == nodes("a") | caches("llama") | GRANTS


def test_an_agent_wakes_the_models_whose_files_it_is_to_remove(cluster: ClusterState, woken: WokenKeys) -> None:
    leaving = entry("llama", "r0", state="Draining")
    cluster.model_nodes.upsert(model_node("c", entry("tiny", kind="ClusterBaseModel"), leaving))
    woken.take()
    cluster.agents.upsert(pod("agent-c", "c", ready=False))
    assert woken.take() == nodes("c") | caches("llama") | cluster_models("tiny") | GRANTS


def test_a_pod_that_is_created_ends_or_is_deleted_wakes_its_node(cluster: ClusterState, woken: WokenKeys) -> None:
    mark = "llama", "r1"
    cluster.model_pods.upsert(pod("user", "", [mark], phase="Pending"))
    assert woken.take() == set()
    cluster.model_pods.upsert(pod("user", "a", [mark], phase="Pending"))
    assert woken.take() == nodes("a")
    cluster.model_pods.upsert(pod("user", "a", [mark], phase="Running"))
    assert woken.take() == set()
    cluster.model_pods.upsert(pod("user", "a", [mark], phase="Succeeded"))
    assert woken.take() == nodes("a")
    cluster.model_pods.remove(pod("user", "a").key)
    assert woken.take() == nodes("a")


def test_a_pod_wakes_its_model_on_a_claim(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.cluster_base_models.upsert(cluster_model("m", {}, uri="pvc://team/claim/x"))
    woken.take()
    mark = uses_label("m")
    cluster.model_pods.upsert(pod("user", "", phase="Pending", labels={mark: "true"}))
    assert woken.take() == cluster_models("m")
    cluster.model_pods.upsert(pod("user", "a", phase="Pending", labels={mark: "true"}))
    assert woken.take() == nodes("a") | cluster_models("m")


def test_changes_of_many_nodes_are_gathered_for_a_moment() -> None:
    cluster, waits = fresh_cluster(), list[float]()
    WokenKeys(cluster, waits.append)
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    cluster.groups.upsert(group("gpus", {}))
    for count in (3, 1000, 5000):
        for i in range(count):
            cluster.nodes.upsert(node(f"n{i}"))
        waits.clear()
        cluster.model_nodes.upsert(model_node("n0", entry("llama"), reported=[entry_status("llama", f"phase {count}")]))
        assert set(waits) == {min(count * 0.0005, 2.0), 0.0005}, "the delay of a node grows with the models"


def waits(model: str = "llama", revision: str = "r1") -> set[QueueKey]:
    return {WaitingKey("ns", model, revision)}


def test_a_pod_that_waits_is_woken_by_labels_of_its_files_wherever_they_appear(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    pod_annotations = {"larder.dev/models": "llama@r1"}
    cluster.model_pods.upsert(pod("user", "", phase="Pending", annotations=pod_annotations))
    assert waits() <= woken.take()
    cluster.nodes.upsert(node("a", GPU | {snapshot_label("llama", "r1"): "true"}))
    assert woken.take() == waits()
    cluster.nodes.upsert(node("a", GPU | {snapshot_label("llama", "r1"): "true", ready_label("llama"): "true"}))
    assert woken.take() == waits()
    cluster.nodes.upsert(node("b", GPU | {snapshot_label("other", "r1"): "true"}))
    assert woken.take() == set()
    cluster.model_pods.upsert(pod("user", "a", phase="Running", annotations=pod_annotations))
    assert waits() <= woken.take()
    cluster.nodes.upsert(node("b", GPU | {snapshot_label("llama", "r1"): "true"}))
    assert woken.take() == set()


def test_a_pod_waiting_on_a_node_is_woken_by_changes_of_its_model_there(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    cluster.model_pods.upsert(pod("user", "a", phase="Pending", annotations={"larder.dev/models": "llama@r1"}))
    woken.take()
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama", "Downloading")]))
    assert waits() <= woken.take()
    cluster.model_nodes.upsert(model_node("b", entry("llama"), reported=[entry_status("llama", "Downloading")]))
    assert not waits() & woken.take()
    cluster.nodes.upsert(node("a", GPU, ready=False))
    assert waits() <= woken.take()
    cluster.cluster_model_caches.remove(cache("llama").key)
    assert waits() <= woken.take()


def test_a_change_of_whether_a_node_has_room_for_a_model_wakes_the_model(
    cluster: ClusterState, woken: WokenKeys
) -> None:
    cluster.unplaced.set("a", {("llama", "r1"): "full"})
    assert woken.take() == caches("llama")
    cluster.unplaced.set("a", {("llama", "r1"): "full, by other numbers"})
    assert woken.take() == set()
    assert cluster.unplaced.reason("a", ("llama", "r1")) == "full"
    cluster.unplaced.set("a", {})
    assert woken.take() == caches("llama")
    assert cluster.unplaced.reason("a", ("llama", "r1")) == ""
