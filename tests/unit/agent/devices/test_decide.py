"""Only fields of the Node that differ are written, and none that belong to others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.devices.decide import (
    RECORD,
    AdvertisedNode,
    DeviceAction,
    DeviceObservation,
    WriteNodeAnnotations,
    WriteNodeStatus,
    decide,
    overruled_before,
    overruled_by_kubelet,
    unknown_keys,
)
from shared.devices.annotation import ANNOTATION, encode_node_info
from shared.devices.info import NodeInfo
from tests.builders.device_plugins import CARD

A, B = "larder.dev/a", "larder.dev/b"
INFO = NodeInfo("n1", {CARD: 1}, {CARD: 1}, kube_cap={A: 4}, kube_alloc={A: 4})
TEXT = encode_node_info(INFO)
SETTLED = AdvertisedNode("u", TEXT, A, {"cpu": "4", A: "4"}, {"cpu": "4", A: "4"})
NOTHING = NodeInfo("n1")


def decided(node: AdvertisedNode, info: NodeInfo = INFO, **fields: Any) -> list[DeviceAction]:
    return decide(DeviceObservation(node, info, ("larder.dev/",), **fields))


def applied(node: AdvertisedNode, action: DeviceAction) -> AdvertisedNode:
    """Return the Node after an API server has applied an action."""
    if isinstance(action, WriteNodeAnnotations):
        annotation = action.changes.get(ANNOTATION, node.annotation)
        record = action.changes.get(RECORD, node.record) or ""
        return AdvertisedNode(node.uid, annotation, record, node.capacity, node.allocatable)
    capacity, allocatable = (
        {k: v for k, v in {**old, **new}.items() if v is not None}
        for old, new in ((node.capacity, action.capacity), (node.allocatable, action.allocatable))
    )
    return AdvertisedNode(node.uid, node.annotation, node.record, capacity, allocatable)


def settled(node: AdvertisedNode, info: NodeInfo, **fields: Any) -> AdvertisedNode:
    """Return the Node once there is nothing more to do, which must happen after a few rounds."""
    for _ in range(4):
        actions = decided(node, info, **fields)
        if not actions:
            return node
        for action in actions:
            node = applied(node, action)
    raise AssertionError(decided(node, info, **fields))


def test_nothing_is_written_if_the_node_is_as_desired() -> None:
    assert decided(SETTLED) == []
    assert decided(AdvertisedNode("u"), NOTHING) == []


def test_a_new_node_gets_the_record_before_the_status() -> None:
    assert decided(AdvertisedNode("u")) == [
        WriteNodeAnnotations({ANNOTATION: TEXT, RECORD: A}),
        WriteNodeStatus({A: "4"}, {A: "4"}),
    ]


@pytest.mark.parametrize("quantity", ["4", "4000m", "4.0"])
def test_an_equal_quantity_in_another_form_is_not_rewritten(quantity: str) -> None:
    assert decided(AdvertisedNode("u", TEXT, A, {A: quantity}, {A: quantity})) == []


def test_a_large_quantity_abbreviated_by_the_api_server_is_not_rewritten() -> None:
    info = NodeInfo("n1", kube_cap={A: 2**40 * 1000}, kube_alloc={A: 2**40 * 1000})
    node = AdvertisedNode("u", encode_node_info(info), A, {A: "1000Ti"}, {A: "1000Ti"})
    assert decided(node, info)[1:] == []


@pytest.mark.parametrize(
    "node",
    [
        AdvertisedNode("u", TEXT, A, {A: "0"}, {A: "0"}),  # by kubelet, after a reboot
        AdvertisedNode("u", TEXT, A, {A: "4"}, {}),
        AdvertisedNode("u", TEXT, A, {}, {A: "4"}),
        AdvertisedNode("u", TEXT, A, {A: "many"}, {A: "4"}),
    ],
)
def test_only_what_differs_in_the_status_is_written(node: AdvertisedNode) -> None:
    assert decided(node) == [WriteNodeStatus({A: "4"}, {A: "4"})]


def test_a_resource_that_is_no_longer_offered_is_removed_before_its_record() -> None:
    node = AdvertisedNode("u", TEXT, f"{A},{B}", {A: "4", B: "1"}, {A: "4", B: "1"})
    actions = decided(node)
    assert actions == [WriteNodeStatus({B: None}, {B: None})]
    assert decided(applied(node, actions[0])) == [WriteNodeAnnotations({RECORD: A})]


def test_resources_without_a_record_of_ours_are_left_alone() -> None:
    node = AdvertisedNode("u", TEXT, A, {A: "4", B: "1", "nvidia.com/gpu": "8"}, {A: "4", B: "1"})
    assert decided(node) == []


def test_a_record_cannot_make_the_agent_remove_resources_it_may_not_write() -> None:
    node = AdvertisedNode("u", TEXT, f"{A},cpu,nvidia.com/gpu", {A: "4", "cpu": "4", "nvidia.com/gpu": "8"}, {A: "4"})
    assert decided(node) == [WriteNodeAnnotations({RECORD: A})]


def test_all_resources_are_removed_when_nothing_is_offered() -> None:
    assert settled(SETTLED, NOTHING) == AdvertisedNode("u", None, "", {"cpu": "4"}, {"cpu": "4"})


def test_unknown_keys_alone_keep_the_annotation() -> None:
    info = NodeInfo("n1", unknown={"vendor": 1})
    assert settled(SETTLED, info).annotation == '{"name":"n1","vendor":1}'


def test_unknown_keys_are_found_in_the_annotation() -> None:
    assert unknown_keys(AdvertisedNode("u")) == ({}, "")
    assert unknown_keys(AdvertisedNode("u", '{"name": "x", "vendor": {"a": [1]}}')) == ({"vendor": {"a": [1]}}, "")
    found, problem = unknown_keys(AdvertisedNode("u", '{"name": 7}'))
    assert (found, problem) == ({}, "name is the number 7, not a string of at most 512 characters")


def test_an_allocatable_that_kubelet_raised_to_the_capacity_is_detected() -> None:
    written = {A: (4, 3), B: (2, 2)}
    both = {A: "4", B: "2"}
    assert overruled_by_kubelet(AdvertisedNode("u", None, "", both, both), written) == {A}
    assert overruled_by_kubelet(AdvertisedNode("u", None, "", both, {A: "3", B: "2"}), written) == frozenset()
    assert overruled_by_kubelet(AdvertisedNode("u", None, "", {A: "0"}, {A: "0"}), written) == frozenset()
    assert overruled_by_kubelet(AdvertisedNode("u", None, "", both, both), {}) == frozenset()


def test_resources_that_kubelet_overruled_before_are_recognised_on_the_node() -> None:
    info = NodeInfo("n1", kube_cap={A: 4, B: 2}, kube_alloc={A: 3, B: 2})

    def known(capacity: str, allocatable: str, record: str = f"{A},{B}") -> frozenset[str]:
        node = AdvertisedNode("u", None, record, {A: capacity, B: "2"}, {A: allocatable, B: "2"})
        return overruled_before(node, info, ("larder.dev/",))

    assert known("3", "3") == {A}
    assert known("4", "3") == known("4", "4") == known("0", "0") == known("3", "3", record=B) == frozenset()
    assert overruled_before(AdvertisedNode("u", None, A), info, ("larder.dev/",)) == frozenset()


def test_the_capacity_is_lowered_if_kubelet_overrules_the_allocatable() -> None:
    info = NodeInfo("n1", kube_cap={A: 4}, kube_alloc={A: 3})
    assert settled(AdvertisedNode("u"), info).allocatable == {A: "3"}
    node = settled(AdvertisedNode("u"), info, overruled=frozenset({A}))
    assert (node.capacity, node.allocatable) == ({A: "3"}, {A: "3"})


NAMES = st.sampled_from([A, B, "larder.dev/c", "cpu", "nvidia.com/gpu"])
OURS = st.dictionaries(st.sampled_from([A, B, "larder.dev/c"]), st.integers(0, 9))
QUANTITIES = st.dictionaries(NAMES, st.sampled_from(["0", "1", "9", "1k", "nonsense"]))
RECORDS = st.lists(NAMES).map(",".join)


@given(QUANTITIES, QUANTITIES, RECORDS, OURS, st.one_of(st.none(), st.text(max_size=5)))
def test_the_node_converges_from_any_state_and_foreign_resources_are_unchanged(
    capacity: dict[str, str], allocatable: dict[str, str], record: str, offered: dict[str, int], text: str | None
) -> None:
    info = NodeInfo("n1", kube_cap=offered, kube_alloc=dict(offered))
    before = AdvertisedNode("u", text, record, capacity, allocatable)
    node = settled(before, info)
    assert {name: node.capacity[name] for name in offered} == {name: str(value) for name, value in offered.items()}
    recorded = set(record.split(","))
    for old, new in ((capacity, node.capacity), (allocatable, node.allocatable)):
        for name, value in old.items():
            if name not in offered and (name not in recorded or not name.startswith("larder.dev/")):
                assert new[name] == value
        assert {name for name in new if name in recorded and name.startswith("larder.dev/")} <= offered.keys()
    assert set(filter(None, node.record.split(","))) == offered.keys()
