import pytest

from controller.placement.name_conflicts import difference
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.names import short_id
from tests.builders.cluster import (
    base_model,
    cache,
    cluster_model,
    entry,
    entry_status,
    fresh_cluster,
    group,
    model_node,
    node,
    pod,
)

GPU = {"pool": "gpu"}


@pytest.fixture
def cluster() -> ClusterState:
    cluster = fresh_cluster()
    for name in ("a", "b"):
        cluster.nodes.upsert(node(name, GPU))
    cluster.groups.upsert(group("gpus", GPU, storage_limit="5k", max_concurrent_nodes=1))
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    return cluster


def names(found: object) -> list[str]:
    assert isinstance(found, list)
    return sorted(getattr(f, "name", "") or f.metadata.name for f in found)


def test_membership_follows_nodes_and_groups(cluster: ClusterState) -> None:
    (demand,) = cluster.models.same_id("llama")
    assert names(cluster.targets_of(demand)) == ["a", "b"]
    assert names(cluster.membership.members_of("gpus")) == ["a", "b"]
    cluster.nodes.upsert(node("b", {"pool": "cpu"}))
    assert names(cluster.targets_of(demand)) == ["a"]
    cluster.groups.upsert(group("gpus", {"pool": "cpu"}))
    assert names(cluster.targets_of(demand)) == ["b"]
    cluster.groups.remove(group("gpus", {}).key)
    assert cluster.targets_of(demand) == []


def test_group_membership_follows_the_labels_of_the_given_node_object(cluster: ClusterState) -> None:
    assert cluster.membership.of(node("a", {"pool": "cpu"})) == frozenset()
    known = cluster.node("a")
    assert known is not None
    assert cluster.membership.of(known) == {"gpus"}


def test_limits_are_those_of_the_groups_or_the_default(cluster: ClusterState) -> None:
    inside, outside = cluster.node("a"), node("z")
    assert inside is not None
    assert (cluster.membership.limits_of(inside).storage_bytes, cluster.membership.is_limited(inside)) == (5000, True)
    assert (cluster.membership.limits_of(outside).storage_bytes, cluster.membership.is_limited(outside)) == (100, False)


def test_the_older_object_wins_a_conflict_until_it_is_deleted(cluster: ClusterState) -> None:
    cluster.cluster_base_models.upsert(
        cluster_model("llama", GPU, uri="s3://bucket/x", creation_timestamp="2025-01-01T00:00:00Z", uid="old")
    )
    found = cluster.node("a")
    assert found is not None
    assert [d.kind for d in cluster.demands_for(found)] == ["ClusterBaseModel"]
    cluster.cluster_base_models.remove(cluster_model("llama", GPU).key)
    assert [d.kind for d in cluster.demands_for(found)] == ["ClusterModelCache"]


def test_a_namespaced_model_does_not_share_the_id_of_a_cluster_model(cluster: ClusterState) -> None:
    cluster.base_models.upsert(base_model("team", "llama"))
    assert [d.kind for d in cluster.models.same_id("team_llama")] == ["BaseModel"]
    cluster.base_models.remove(base_model("team", "llama").key)
    assert (cluster.models.same_id("team_llama"), len(cluster.models.demands)) == ([], 1)


def test_an_agents_report_counts_only_for_its_own_node(cluster: ClusterState) -> None:
    found = cluster.node("a")
    assert found is not None
    assert cluster.statuses.of(found) == {}
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama", "Waiting")]))
    assert cluster.statuses.of(found)["llama", "r1"].phase == "Waiting"
    cluster.model_nodes.upsert(model_node("a", entry("llama"), reported=[entry_status("llama", "Ready")]))
    assert cluster.statuses.of(found)["llama", "r1"].phase == "Ready"
    cluster.model_nodes.upsert(model_node("a", reported=[entry_status("llama", "Ready")], node_uid="another"))
    assert cluster.statuses.of(found) == {}
    assert cluster.listed.sizes_on("a") == {}


def test_the_snapshots_in_use_follow_from_the_watched_pods(cluster: ClusterState) -> None:
    mine = model_node("a", entry("llama"), entry("llama", "r2"))
    cluster.model_pods.upsert(pod("one", "a", [("llama", "r2")]))
    cluster.model_pods.upsert(pod("two", "b", [("llama", "r1")]))
    cluster.model_pods.upsert(pod("done", "a", [("llama", "r1")], phase="Succeeded"))
    assert cluster.pod_users.in_use("a", mine) == {("llama", "r2")}
    cluster.model_pods.remove(pod("one", "a").key)
    assert cluster.pod_users.in_use("a", mine) == frozenset()


@pytest.mark.parametrize("node_first", [False, True])
def test_no_state_remains_of_deleted_nodes(*, node_first: bool) -> None:
    cluster = fresh_cluster()
    cluster.groups.upsert(group("all", {}))
    for i in range(50):
        name = f"n{i}"
        cluster.nodes.upsert(node(name))
        cluster.agents.upsert(pod(f"agent-{name}", name))
        cluster.model_pods.upsert(pod(f"user-{name}", name))
        cluster.model_nodes.upsert(model_node(name, entry("llama"), reported=[entry_status("llama")]))
        found = cluster.node(name)
        assert found is not None
        assert cluster.membership.of(found) == {"all"}
        assert cluster.statuses.of(found)
        objects = (
            (cluster.agents, pod(f"agent-{name}", name).key),
            (cluster.model_pods, pod(f"user-{name}", name).key),
            (cluster.model_nodes, model_node(name).key),
            (cluster.nodes, node(name).key),
        )
        for cached, key in reversed(objects) if node_first else objects:  # Kubernetes removes the pods of a Node later
            cached.remove(key)
    kept = (
        cluster.membership._names,
        cluster.statuses._by_entry,
        cluster.listed._nodes_of_owner,
        cluster.pod_users._by_node,
        cluster.liveness._away_since,
    )
    assert [len(index) for index in kept] == [0] * len(kept)


def test_a_node_that_replaces_another_of_its_name_has_had_no_agent_for_no_time() -> None:
    now_s = [0.0]
    cluster = fresh_cluster(lambda: now_s[0])
    cluster.nodes.upsert(node("a", uid="first"))
    cluster.agents.upsert(pod("agent", "a"))
    cluster.nodes.remove(node("a").key)
    cluster.agents.remove(pod("agent", "a").key)
    now_s[0] = 300.0
    cluster.nodes.upsert(node("a", uid="second"))
    assert cluster.liveness.away_s("a") == 0


def test_a_name_that_equals_the_shortened_id_of_another_model_is_a_conflict() -> None:
    cluster = fresh_cluster()
    long = "a-model-with-a-name-that-is-much-too-long-for-a-label"
    cluster.cluster_model_caches.upsert(cache(long, creation_timestamp="2026-01-01T00:00:00Z"))
    cluster.cluster_model_caches.upsert(
        cache(short_id(long), uri=f"hf://org/{long}", creation_timestamp="2026-02-01T00:00:00Z")
    )
    first, second = (
        cluster.models.demands[ModelKey("ClusterModelCache", "", long)],
        cluster.models.demands[ModelKey("ClusterModelCache", "", short_id(long))],
    )
    assert first.uri == second.uri
    assert cluster.models.conflict(second) is first
    assert cluster.models.conflict(first) is None
    assert "a name that nodes shorten to" in difference(second, first)
    cluster.cluster_model_caches.remove(cache(long).key)
    assert cluster.models.conflict(second) is None
