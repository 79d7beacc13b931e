from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller.groups.decide import GroupMember, decide_status
from shared.api.meta import Condition
from shared.api.model_cache_node_group import (
    ModelCacheNodeGroup,
    ModelCacheNodeGroupSpec,
    ModelCacheNodeGroupStatus,
)
from shared.kube.objects import Meta

NOW, LATER = "2026-06-01T12:00:00Z", "2026-06-01T13:00:00Z"
MAX = 2**63 - 1


def group(limit: str = "1000", **status: Any) -> ModelCacheNodeGroup:
    return ModelCacheNodeGroup(
        metadata=Meta(name="g", generation=4),
        spec=ModelCacheNodeGroupSpec(storage_limit=limit),
        status=ModelCacheNodeGroupStatus(**status),
    )


def decide(*members: GroupMember, found: ModelCacheNodeGroup | None = None, stamp: str = NOW, **limits: int) -> Any:
    return decide_status(found or group(), members, limits, stamp)


def overlapping(status: ModelCacheNodeGroupStatus) -> Condition:
    (condition,) = (c for c in status.conditions if c.type == "Overlapping")
    return condition


def test_used_and_available_bytes_are_summed_over_the_nodes() -> None:
    status = decide(GroupMember("a", 300, ()), GroupMember("b", 900, ()), a=1000, b=500)
    assert (status.used, status.available) == (1200, 700)  # b is over the limit that another group sets
    assert (status.node_count, status.nodes, status.observed_generation) == (2, ["a", "b"], 4)


def test_a_node_without_a_known_limit_counts_with_that_of_the_group() -> None:
    assert decide(GroupMember("a", 300, ())).available == 700


def test_nodes_of_two_groups_are_named_with_them() -> None:
    condition = overlapping(decide(GroupMember("a", 0, ()), GroupMember("b", 0, ("h", "i"))))
    assert (condition.status, condition.reason) == ("True", "Overlapping")
    assert "b is also in h, i" in condition.message
    assert overlapping(decide(GroupMember("a", 0, ()))).status == "False"


def test_only_a_few_of_many_overlapping_nodes_are_named() -> None:
    message = overlapping(decide(*(GroupMember(f"n{i}", 0, ("h",)) for i in range(500)))).message
    assert "n2 is also in h; and 497 more nodes" in message
    assert len(message) < 300


def test_the_condition_keeps_its_time_while_its_status_is_unchanged() -> None:
    first = decide(GroupMember("a", 0, ("h",)))
    second = decide(GroupMember("a", 0, ("i",)), found=group(conditions=first.conditions), stamp=LATER)
    third = decide(GroupMember("a", 0, ()), found=group(conditions=second.conditions), stamp=LATER)
    assert [overlapping(s).last_transition_time for s in (first, second, third)] == [NOW, NOW, LATER]


def test_a_hundred_nodes_are_listed_and_all_are_counted() -> None:
    status = decide(*(GroupMember(f"n{i:03}", 1, ()) for i in range(250)))
    assert (len(status.nodes), status.node_count, status.used) == (100, 250, 250)


@given(st.lists(st.integers(-(2**63), MAX), max_size=5), st.sampled_from(["0", "5Gi", "100E"]))
def test_used_and_available_bytes_stay_in_range_whatever_agents_report(used: list[int], limit: str) -> None:
    members = [GroupMember(f"n{i}", u, ()) for i, u in enumerate(used)]
    status = decide(*members, found=group(limit))
    assert 0 <= status.used <= MAX
    assert 0 <= status.available <= MAX
    assert msgspec.json.decode(msgspec.json.encode(status), type=ModelCacheNodeGroupStatus) == status
