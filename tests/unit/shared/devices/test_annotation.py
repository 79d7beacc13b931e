"""The annotation has limits, keeps unknown keys, and never contains amounts that Kubernetes itself counts."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.devices.annotation import (
    MAX_BYTES,
    InvalidDeviceInfo,
    encode_node_info,
    encode_pod_info,
    node_info_from,
    parse_node_info,
    parse_pod_info,
    pod_info_from,
    pod_info_json,
)
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo, copy_node, copy_pod

CARDS = "resource/group/gpu/0/cards"
NODE = {
    "name": "n1",
    "capacity": {CARDS: 2},
    "allocatable": {CARDS: 1},
    "used": {CARDS: 1},
    "scorer": {CARDS: 1},
}
POD = {
    "podname": "p",
    "nodename": "n1",
    "requests": {"gpu/gpu-generate-topology": 1},
    "initcontainer": {"i": {"requests": {CARDS: 1}}},
    "runningcontainer": {
        "r": {
            "requests": {CARDS: 1},
            "devrequests": {CARDS: 1},
            "allocatefrom": {CARDS: "resource/group/gpu/dev1/cards"},
            "scorer": {CARDS: 2},
        }
    },
}


def test_a_node_annotation_survives_a_round_trip() -> None:
    info = parse_node_info(json.dumps(NODE))
    assert info == NodeInfo("n1", {CARDS: 2}, {CARDS: 1}, {CARDS: 1}, {CARDS: 1})
    assert json.loads(encode_node_info(info)) == NODE


def test_a_pod_annotation_survives_a_round_trip() -> None:
    info = parse_pod_info(json.dumps(POD))
    assert info.running_containers["r"].allocate_from == {CARDS: "resource/group/gpu/dev1/cards"}
    assert json.loads(encode_pod_info(info)) == POD


def test_empty_keys_and_amounts_known_to_kubernetes_are_left_out() -> None:
    assert encode_node_info(NodeInfo(kube_cap={"cpu": 4}, kube_alloc={"cpu": 4})) == "{}"
    assert encode_pod_info(PodInfo()) == "{}"
    pod = PodInfo(running_containers={"r": ContainerInfo(kube_requests={"nvidia.com/gpu": 1})})
    assert pod_info_json(pod) == {"runningcontainer": {"r": {}}}


def test_unknown_keys_are_kept_at_every_level() -> None:
    text = {"later": [1], "runningcontainer": {"r": {"later": {"x": None}, "requests": {CARDS: 1}}}}
    assert json.loads(encode_pod_info(parse_pod_info(json.dumps(text)))) == text
    assert json.loads(encode_node_info(parse_node_info('{"later": true}'))) == {"later": True}


def test_null_means_empty() -> None:
    assert parse_node_info('{"name": null, "capacity": null}') == NodeInfo()
    assert parse_pod_info('{"runningcontainer": null}') == PodInfo()


def test_copies_are_independent() -> None:
    pod, node = pod_info_from(POD), node_info_from(NODE)
    copied, other = copy_pod(pod), copy_node(node)
    copied.running_containers["r"].requests[CARDS] = 7
    other.used[CARDS] = 7
    assert (pod, node) == (pod_info_from(POD), node_info_from(NODE))


def text_of(**values: Any) -> str:
    return json.dumps(values)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("nonsense", "not JSON"),
        (b'"\xff"', "not JSON"),
        ("[]", "the text is a list, not an object"),
        ('"x"', "the text is a string of 1 characters"),
        (text_of(podname=3), "podname is the number 3"),
        (text_of(podname="x" * 513), "podname is a string of 513 characters"),
        (text_of(requests=[1]), "requests is a list, not an object"),
        (text_of(runningcontainer={"r": 1}), "runningcontainer.r is the number 1"),
        (
            text_of(runningcontainer={"r": {"requests": {"a": True}}}),
            "runningcontainer.r.requests['a'] is true, not a whole number",
        ),
        (text_of(initcontainer={"i": {"requests": {"a": 1.5}}}), "initcontainer.i.requests['a'] is the number 1.5"),
        (text_of(requests={"a": -1}), "requests['a'] is -1, not between 0 and"),
        (text_of(requests={"a": 2**63}), "not between 0 and 9223372036854775807"),
        (text_of(runningcontainer={"r": {"scorer": {"a": 2**31}}}), "runningcontainer.r.scorer['a'] is"),
        (
            text_of(runningcontainer={"r": {"allocatefrom": {"a": 1}}}),
            "allocatefrom['a'] is the number 1, not the name",
        ),
        (text_of(requests={f"r{i}": 1 for i in range(257)}), "requests has 257 entries; the limit is 256"),
        (text_of(runningcontainer={f"c{i}": {} for i in range(65)}), "runningcontainer has 65 entries"),
        (text_of(requests={"x" * 600: 1}), "requests has a name of 600 characters"),
        (text_of(requests={"/".join("a" * 33): 1}), "in 33 parts"),
        (" " * (MAX_BYTES + 1), "the limit is 262144"),
        ('{"later":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
    ids=lambda value: value[:40],
)
def test_the_error_names_the_invalid_place_in_the_text(text: str | bytes, where: str) -> None:
    with pytest.raises(InvalidDeviceInfo) as caught:
        parse_pod_info(text)
    assert where in str(caught.value)
    assert len(str(caught.value)) < 300


names = st.text(min_size=1, max_size=20)
values = st.integers(min_value=0, max_value=2**63 - 1)
containers = st.builds(
    ContainerInfo,
    requests=st.dictionaries(names, values, max_size=3),
    dev_requests=st.dictionaries(names, values, max_size=3),
    allocate_from=st.dictionaries(names, names, max_size=3),
    scorer=st.dictionaries(names, st.integers(0, 2), max_size=3),
)


@given(st.builds(PodInfo, name=names, running_containers=st.dictionaries(names, containers, max_size=3)))
def test_any_pod_annotation_survives_a_round_trip(pod: PodInfo) -> None:
    assert parse_pod_info(encode_pod_info(pod)) == pod


keys = st.sampled_from(["requests", "runningcontainer", "r", "name"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(keys, inner)
)


@given(anything)
def test_arbitrary_values_are_read_back_or_refused(value: Any) -> None:
    with suppress(InvalidDeviceInfo):
        assert parse_pod_info(encode_pod_info(pod_info_from(value))) == pod_info_from(value)
    with suppress(InvalidDeviceInfo):
        assert parse_node_info(encode_node_info(node_info_from(value))) == node_info_from(value)


def test_an_enormous_number_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidDeviceInfo, match=r"requests\['a'\] is an enormous number"):
        pod_info_from({"requests": {"a": 10**5000}})
