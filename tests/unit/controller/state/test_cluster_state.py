import pytest

from controller.placement.demand import difference
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.names import short_id
from tests.unit.controller.states import (
    base_model,
    cache,
    cluster_model,
    entry,
    fresh_world,
    group,
    model_node,
    node,
    pod,
    said,
)

GPU = {"pool": "gpu"}


@pytest.fixture
def world() -> ClusterState:
    world = fresh_world()
    for name in ("a", "b"):
        world.nodes.upsert(node(name, GPU))
    world.groups.upsert(group("gpus", GPU, storage_limit="5k", max_concurrent_nodes=1))
    world.caches.upsert(cache("llama", "gpus"))
    return world


def names(found: object) -> list[str]:
    assert isinstance(found, list)
    return sorted(getattr(f, "name", "") or f.metadata.name for f in found)


def test_membership_follows_nodes_and_groups(world: ClusterState) -> None:
    (demand,) = world.same_id("llama")
    assert names(world.targets_of(demand)) == ["a", "b"]
    assert names(world.membership.members_of("gpus")) == ["a", "b"]
    world.nodes.upsert(node("b", {"pool": "cpu"}))
    assert names(world.targets_of(demand)) == ["a"]
    world.groups.upsert(group("gpus", {"pool": "cpu"}))
    assert names(world.targets_of(demand)) == ["b"]
    world.groups.remove(group("gpus", {}).key)
    assert world.targets_of(demand) == []


def test_a_node_that_is_not_the_one_in_memory_is_judged_by_its_own_labels(world: ClusterState) -> None:
    assert world.membership.of(node("a", {"pool": "cpu"})) == frozenset()
    known = world.node("a")
    assert known is not None
    assert world.membership.of(known) == {"gpus"}


def test_limits_are_those_of_the_groups_or_the_default(world: ClusterState) -> None:
    inside, outside = world.node("a"), node("z")
    assert inside is not None
    assert (world.membership.limits_of(inside).storage_bytes, world.membership.is_limited(inside)) == (5000, True)
    assert (world.membership.limits_of(outside).storage_bytes, world.membership.is_limited(outside)) == (100, False)


def test_a_conflict_is_settled_by_age_and_ends_with_the_older(world: ClusterState) -> None:
    world.cluster_base_models.upsert(
        cluster_model("llama", GPU, uri="s3://bucket/x", creation_timestamp="2025-01-01T00:00:00Z", uid="old")
    )
    found = world.node("a")
    assert found is not None
    assert [d.kind for d in world.demands_for(found)] == ["ClusterBaseModel"]
    world.cluster_base_models.remove(cluster_model("llama", GPU).key)
    assert [d.kind for d in world.demands_for(found)] == ["ClusterModelCache"]


def test_ids_of_namespaced_models_are_their_own(world: ClusterState) -> None:
    world.base_models.upsert(base_model("team", "llama"))
    assert [d.kind for d in world.same_id("team_llama")] == ["BaseModel"]
    world.base_models.remove(base_model("team", "llama").key)
    assert (world.same_id("team_llama"), len(world.demands)) == ([], 1)


def test_claims_are_found_by_the_objects_uid(world: ClusterState) -> None:
    world.model_nodes.upsert(model_node("a", entry("llama")))
    world.model_nodes.upsert(model_node("b", entry("llama")))
    assert sorted(world.nodes_of_claim("uid-llama")) == ["a", "b"]
    world.model_nodes.upsert(model_node("b"))
    world.model_nodes.remove(model_node("a").key)
    assert world.nodes_of_claim("uid-llama") == []


def test_an_agents_words_count_for_its_own_node_alone(world: ClusterState) -> None:
    found = world.node("a")
    assert found is not None
    assert world.statuses.of(found) == {}
    world.model_nodes.upsert(model_node("a", entry("llama"), told=[said("llama", "Waiting")]))
    assert world.statuses.of(found)["llama", "r1"].phase == "Waiting"
    world.model_nodes.upsert(model_node("a", entry("llama"), told=[said("llama", "Ready")]))
    assert world.statuses.of(found)["llama", "r1"].phase == "Ready"
    world.model_nodes.upsert(model_node("a", told=[said("llama", "Ready")], node_uid="another"))
    assert world.statuses.of(found) == {}
    assert world.sizes_listed("a") == {}


def test_watched_pods_tell_what_is_in_use(world: ClusterState) -> None:
    mine = model_node("a", entry("llama"), entry("llama", "r2"))
    world.users.upsert(pod("one", "a", [("llama", "r2")]))
    world.users.upsert(pod("two", "b", [("llama", "r1")]))
    world.users.upsert(pod("done", "a", [("llama", "r1")], phase="Succeeded"))
    assert world.pod_users.in_use("a", mine) == {("llama", "r2")}
    world.users.remove(pod("one", "a").key)
    assert world.pod_users.in_use("a", mine) == frozenset()


def test_nodes_that_come_and_go_leave_nothing_behind() -> None:
    world = fresh_world()
    world.groups.upsert(group("all", {}))
    for i in range(50):
        name = f"n{i}"
        world.nodes.upsert(node(name))
        world.agents.upsert(pod(f"agent-{name}", name))
        world.users.upsert(pod(f"user-{name}", name))
        world.model_nodes.upsert(model_node(name, entry("llama"), told=[said("llama")]))
        found = world.node(name)
        assert found is not None
        assert world.membership.of(found) == {"all"}
        assert world.statuses.of(found)
        for cached, key in (
            (world.agents, pod(f"agent-{name}", name).key),
            (world.users, pod(f"user-{name}", name).key),
            (world.model_nodes, model_node(name).key),
            (world.nodes, node(name).key),
        ):
            cached.remove(key)
    kept = (
        world.membership._names,
        world.statuses._by_entry,
        world._nodes_of_claim,
        world.pod_users._at,
        world.liveness._away_since,
    )
    assert [len(book) for book in kept] == [0] * len(kept)


def test_a_name_that_equals_the_cut_id_of_another_is_a_conflict() -> None:
    world = fresh_world()
    long = "a-model-with-a-name-that-is-much-too-long-for-a-label"
    world.caches.upsert(cache(long, creation_timestamp="2026-01-01T00:00:00Z"))
    world.caches.upsert(cache(short_id(long), uri=f"hf://org/{long}", creation_timestamp="2026-02-01T00:00:00Z"))
    first, second = (
        world.demands[ModelKey("ClusterModelCache", "", long)],
        world.demands[ModelKey("ClusterModelCache", "", short_id(long))],
    )
    assert first.uri == second.uri
    assert world.conflict(second) is first
    assert world.conflict(first) is None
    assert "a name that nodes know as" in difference(second, first)
    world.caches.remove(cache(long).key)
    assert world.conflict(second) is None
