import pytest

from controller.placement.groups import MAX_INT64, NodeLimits, groups_of, limits_of
from tests.builders.cluster import group

DEFAULT = NodeLimits(7, 3)


def test_a_node_in_no_group_has_the_default_limits() -> None:
    assert limits_of([], DEFAULT) == DEFAULT


def test_a_node_in_several_groups_has_the_smallest_of_each_limit() -> None:
    found = [group("a", {}, storage_limit="5Gi", bandwidth_limit="1M"), group("b", {}, storage_limit="1Ti")]
    assert limits_of(found, DEFAULT) == NodeLimits(5 * 2**30, 10**6)
    assert limits_of([*found, group("c", {}, storage_limit="1k", bandwidth_limit=500)], DEFAULT) == NodeLimits(
        1000, 500
    )


@pytest.mark.parametrize("rate", [None, 0, "0"])
def test_a_missing_or_zero_bandwidth_limit_is_unlimited(rate: int | str | None) -> None:
    assert limits_of([group("a", {}, bandwidth_limit=rate)], DEFAULT).bandwidth_bytes_s == 0


def test_limits_beyond_64_bits_are_clamped() -> None:
    assert limits_of([group("a", {}, storage_limit="100E", bandwidth_limit="100E")], DEFAULT) == NodeLimits(
        MAX_INT64, MAX_INT64
    )


def test_a_group_selects_nodes_by_all_of_its_labels_and_its_affinity() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = [group("b", {"gpu": "yes"}), group("a", {}), group("c", {"gpu": "yes"}, node_affinity=affinity)]
    assert [g.metadata.name for g in groups_of(found, "n", {"gpu": "yes"})] == ["a", "b"]
    assert [g.metadata.name for g in groups_of(found, "n", {"gpu": "yes", "zone": "z1"})] == ["a", "b", "c"]
    assert [g.metadata.name for g in groups_of(found, "n", {})] == ["a"]


def test_eviction_is_allowed_only_if_all_groups_of_a_node_allow_it() -> None:
    yes, no = group("a", {}, eviction_policy="LeastRecentlyUsed"), group("b", {})
    assert limits_of([yes], DEFAULT).evicts
    assert not limits_of([yes, no], DEFAULT).evicts
    assert not limits_of([], DEFAULT).evicts
