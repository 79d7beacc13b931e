"""How namespaces share the space of a ModelNode."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.shares import ModelNodeCapacity, refuse_beyond_shares, size_of
from shared.api.model_node import Claim, Entry
from shared.names import model_id, namespace_of


def entry(namespace: str, name: str, **fields: Any) -> Entry:
    claim = Claim(kind="BaseModel", namespace=namespace, name=name, uid=f"uid-{namespace}-{name}")
    return Entry(id=model_id(namespace, name), revision="c" * 40, manifest="d" * 64, claims=[claim], **fields)


def many(namespace: str, count: int, start: int = 0) -> list[Entry]:
    return [entry(namespace, f"m{i:05}") for i in range(start, start + count)]


def admitted(listed: list[Entry], wanted: list[Entry], capacity: ModelNodeCapacity) -> list[Entry]:
    refused = refuse_beyond_shares(listed, wanted, capacity)
    return [e for e in wanted if e.key not in refused]


def test_a_namespace_gets_half_and_leaves_the_rest_for_others() -> None:
    capacity = ModelNodeCapacity(1000, 10**9)
    greedy = admitted([], many("greedy", 2100), capacity)
    assert len(greedy) == 500
    assert len(admitted(greedy, many("other", 10), capacity)) == 10
    assert len(admitted(greedy, many("", 300), capacity)) == 300


def test_namespaces_that_arrive_together_share_equally() -> None:
    found = admitted([], [*many("a", 2000), *many("b", 2000), *many("c", 5)], ModelNodeCapacity(1000, 10**9))
    counts = Counter(namespace_of(e.id) for e in found)
    assert counts["a"] in range(330, 334)
    assert abs(counts["a"] - counts["b"]) <= 1
    assert counts["c"] == 5


def test_a_namespace_at_its_share_can_update_its_models_a_few_at_a_time() -> None:
    capacity, listed = ModelNodeCapacity(100, 10**9), many("greedy", 50)
    updates = [msgspec.structs.replace(e, revision="e" * 40) for e in listed]
    first = admitted(listed, updates, capacity)
    assert [e.id for e in first] == [e.id for e in listed[:8]]
    assert admitted([*listed, *first], updates[8:], capacity) == []
    assert len(admitted([*listed[8:], *first], updates[8:], capacity)) == 8
    assert admitted([*listed, *many("other", 50)], updates, capacity) == []


def test_a_refusal_states_the_numbers_and_a_remedy() -> None:
    refused = refuse_beyond_shares([], many("greedy", 20), ModelNodeCapacity(10, 10**6))
    assert len(refused) == 15
    (message,) = set(refused.values())
    assert "namespace greedy has 5 models on this node already" in message
    assert "at most 10 models and 976.6 KiB; 5 models and" in message
    assert "delete models" in message


def test_names_and_uris_of_any_length_keep_the_spec_small() -> None:
    """Two thousand models, each with texts of the maximum length."""
    long = [
        entry(f"{'n' * 58}{i % 50:05}", f"{'m' * 248}{i:05}", uri="https://host/" + 2000 * '"', priority=-(10**9))
        for i in range(2000)
    ]
    found = admitted([], long, ModelNodeCapacity())
    assert len(msgspec.json.encode(found)) <= 600 * 1024
    assert len({namespace_of(e.id) for e in found}) == 50
    reported = sum(len(e.id) + len(e.revision) + 220 for e in found)
    assert reported <= 384 * 1024


names = st.sampled_from(["", "a", "b", "c", "d"])
pile = st.lists(st.tuples(names, st.integers(0, 200)), unique=True, max_size=80)
rooms = st.builds(ModelNodeCapacity, st.integers(1, 60), st.integers(500, 40_000))


@given(pile, st.data(), rooms)
def test_the_limits_hold_and_every_namespace_gets_a_place(
    wishes: list[tuple[str, int]], data: st.DataObject, capacity: ModelNodeCapacity
) -> None:
    cut = data.draw(st.integers(0, len(wishes)))
    listed = [entry(namespace, f"m{i}") for namespace, i in wishes[:cut]]
    wanted = [entry(namespace, f"m{i}", uri="x" * (i * 3)) for namespace, i in wishes[cut:]]
    refused = refuse_beyond_shares(listed, wanted, capacity)
    found = [e for e in wanted if e.key not in refused]
    entries, size = len(listed) + len(found), sum(map(size_of, [*listed, *found]))
    if found:
        assert entries <= capacity.entries
        assert size <= capacity.size_bytes
    assert refused.keys() <= {e.key for e in wanted}
    assert all(refused.values())
    if capacity.entries > len(listed) + len({namespace_of(e.id) for e in wanted}):
        holders = {namespace_of(e.id) for e in [*listed, *found]}
        small = {namespace_of(e.id) for e in wanted if size_of(e) + size <= capacity.size_bytes}
        assert small <= holders, "every namespace gets some while there is space"
    stable = refuse_beyond_shares([*listed, *found], [e for e in wanted if e.key in refused], capacity)
    counts = Counter(namespace_of(e.id) for e in [*listed, *found])
    assert all(not counts[namespace_of(key[0])] or key in stable for key in refused), (
        "a second pass admits nothing more"
    )


@given(pile, st.randoms(use_true_random=False), rooms)
def test_the_order_of_namespaces_does_not_matter(
    wishes: list[tuple[str, int]], random: Any, capacity: ModelNodeCapacity
) -> None:
    flows: dict[str, list[Entry]] = {}
    for namespace, i in wishes:
        flows.setdefault(namespace, []).append(entry(namespace, f"m{i}"))
    order = list(flows)
    random.shuffle(order)
    shuffled = [e for namespace in order for e in flows[namespace]]
    assert refuse_beyond_shares([], shuffled, capacity) == refuse_beyond_shares(
        [], [e for flow in flows.values() for e in flow], capacity
    )
