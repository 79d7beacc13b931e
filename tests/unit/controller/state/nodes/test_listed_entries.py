"""Which snapshots nodes list, and for which objects."""

from hypothesis import given
from hypothesis import strategies as st

from controller.state.nodes.listed_entries import ListedEntries
from shared.api.model_node import ModelNode
from shared.kube.cache import Cache
from tests.builders.cluster import entry, model_node

KEYS = [("m", "r1"), ("m", "r2"), ("n", "r1")]
changes = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sets(st.sampled_from(KEYS))), max_size=12)


def nothing_listed() -> tuple[Cache[ModelNode], ListedEntries]:
    def changed(before: ModelNode | None, after: ModelNode | None) -> None:
        listed.on_change(before, after)

    nodes: Cache[ModelNode] = Cache(changed)
    listed = ListedEntries(nodes)
    return nodes, listed


def test_entries_being_removed_are_not_listed() -> None:
    nodes, listed = nothing_listed()
    nodes.upsert(model_node("a", entry("m")))
    nodes.upsert(model_node("a", entry("m", state="Absent")))
    assert KEYS[0] not in listed


@given(changes)
def test_a_snapshot_is_known_while_any_node_lists_it(steps: list[tuple[str, set[tuple[str, str]] | None]]) -> None:
    nodes, listed = nothing_listed()
    for name, keys in steps:
        if keys is None:
            nodes.remove(model_node(name).key)
        else:
            nodes.upsert(model_node(name, *(entry(*key) for key in keys)))
        present = {e.key for found in nodes for e in found.spec.entries}
        assert [key in listed for key in KEYS] == [key in present for key in KEYS]


def test_claims_are_found_by_the_objects_uid() -> None:
    nodes, listed = nothing_listed()
    nodes.upsert(model_node("a", entry("llama")))
    nodes.upsert(model_node("b", entry("llama")))
    assert sorted(listed.nodes_of_owner("uid-llama")) == ["a", "b"]
    nodes.upsert(model_node("b"))
    nodes.remove(model_node("a").key)
    assert listed.nodes_of_owner("uid-llama") == []


def test_an_entry_is_found_for_the_claims_object_alone() -> None:
    nodes, listed = nothing_listed()
    nodes.upsert(model_node("a", entry("m", manifest="a" * 64)))
    nodes.upsert(model_node("b", entry("n", manifest="b" * 64)))
    found = listed.entry_of_owner("uid-m", KEYS[0])
    assert found is not None
    assert found.key == KEYS[0]
    assert listed.entry_of_owner("uid-n", KEYS[0]) is None, "another object's"
    assert listed.entry_of_owner("uid-m", KEYS[1]) is None, "no node lists this revision"
