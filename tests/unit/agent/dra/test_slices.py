from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent.dra.slices import (
    MAX_DEVICES,
    CreateSlice,
    DeleteSlice,
    PoolOwner,
    PublishedSlice,
    ReplaceSlice,
    SliceAction,
    generation_of,
    plan_slices,
    published_slice,
    slice_name,
)
from shared.json_object import Json

NODE = PoolOwner("node-a", "u1")


def _devices(count: int) -> list[Json]:
    return [{"name": f"d{i}"} for i in range(count)]


def _applied(published: Sequence[PublishedSlice], actions: Sequence[SliceAction]) -> list[PublishedSlice]:
    """Return the slices on the API server after these actions."""
    known = {each.name: each for each in published}
    for action in actions:
        match action:
            case CreateSlice(body) | ReplaceSlice(_, body):
                body["metadata"]["resourceVersion"] = "9"
                each = published_slice(body)
                known[each.name] = each
            case DeleteSlice(name):
                del known[name]
    return list(known.values())


@given(st.lists(st.integers(0, 3 * MAX_DEVICES + 1), min_size=1, max_size=5))
def test_applying_a_plan_completes_the_pool_and_leaves_nothing_to_do(counts: list[int]) -> None:
    published: list[PublishedSlice] = []
    last = 0
    for count in counts:
        actions = plan_slices(NODE, _devices(count), published, last)
        published, last = _applied(published, actions), max(last, generation_of(actions))
        assert {each.generation for each in published} == {last}
        assert {each.count for each in published} == {len(published)} == {max(1, -(-count // MAX_DEVICES))}
        assert plan_slices(NODE, _devices(count), published, last) == []


def test_a_change_of_one_slice_raises_the_generation_of_all() -> None:
    devices = _devices(MAX_DEVICES + 1)
    published = _applied([], plan_slices(NODE, devices, []))
    devices[-1] = {"name": "other"}
    bodies = [action.body for action in plan_slices(NODE, devices, published) if isinstance(action, ReplaceSlice)]
    assert [body["spec"]["pool"]["generation"] for body in bodies] == [2, 2]


def test_slices_are_written_again_for_a_node_that_was_created_again() -> None:
    """Otherwise the garbage collector deletes those of the former Node, and the node has no devices for a while."""
    devices, again = _devices(MAX_DEVICES + 1), PoolOwner("node-a", "u2")
    published = _applied([], plan_slices(NODE, devices, []))
    actions = plan_slices(again, devices, published, 1)
    assert [type(action) for action in actions] == [ReplaceSlice, ReplaceSlice]
    published = _applied(published, actions)
    assert {each.owner_uid for each in published} == {"u2"}
    assert plan_slices(again, devices, published, 2) == []


def test_the_generation_continues_after_the_slices_were_deleted() -> None:
    (action,) = plan_slices(NODE, _devices(1), [], last_generation=7)
    assert isinstance(action, CreateSlice)
    assert action.body["spec"]["pool"] == {"name": "node-a", "generation": 8, "resourceSliceCount": 1}


def test_one_deleted_slice_of_several_is_written_with_all_others() -> None:
    published = _applied([], plan_slices(NODE, _devices(MAX_DEVICES * 2), []))
    actions = plan_slices(NODE, _devices(MAX_DEVICES * 2), published[:1], 1)
    assert [type(action) for action in actions] == [ReplaceSlice, CreateSlice]


def test_slices_are_owned_by_their_node_and_similar_node_names_do_not_collide() -> None:
    (action,) = plan_slices(NODE, [], [])
    assert isinstance(action, CreateSlice)
    assert action.body["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "u1", "controller": True}
    ]
    assert slice_name("n" * 253, 0) != slice_name("n" * 252, 0)
    assert len(slice_name("n" * 253, 99)) <= 253
