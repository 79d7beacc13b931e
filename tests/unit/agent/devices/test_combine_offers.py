"""Offers are combined unless they overlap or exceed a limit together."""

from agent.devices.combine_offers import MAX_ANNOTATION_BYTES, combine, is_empty
from shared.devices.annotation import encode_node_info, parse_node_info
from shared.devices.info import NodeInfo
from tests.builders.device_plugins import CARD


def test_offers_of_plugins_are_merged_and_unknown_keys_kept() -> None:
    first = NodeInfo("n1", {CARD: 1}, {CARD: 1}, {CARD: 1}, {CARD: 1}, {"larder.dev/a": 2}, {"larder.dev/a": 1})
    second = NodeInfo("n1", allocatable={"resource/group/tpu/0/chips": 4})
    combined = combine("n1", {"first": first, "second": second}, {"vendor": 1})
    assert (combined.plugins, combined.failures) == (("first", "second"), {})
    assert combined.info == NodeInfo(
        "n1",
        {CARD: 1},
        {CARD: 1, "resource/group/tpu/0/chips": 4},
        {CARD: 1},
        {CARD: 1},
        {"larder.dev/a": 2},
        {"larder.dev/a": 1},
        {"vendor": 1},
    )


def test_a_plugin_that_offers_the_device_of_another_is_left_out() -> None:
    one = NodeInfo("n1", allocatable={CARD: 1})
    for other in (NodeInfo("n1", capacity={CARD: 2}), NodeInfo("n1", scorer={CARD: 1}), one):
        combined = combine("n1", {"one": one, "other": other}, {})
        assert combined.plugins == ("one",)
        assert combined.failures == {"other": f"another plugin offers {CARD} too"}
        assert combined.info == one


def test_offers_too_large_for_the_annotation_are_left_out_and_smaller_ones_continue() -> None:
    large = NodeInfo("n1", allocatable={f"resource/group/{'x' * 400}/{n}/leaf": 1 for n in range(300)})
    small = NodeInfo("n1", allocatable={CARD: 1})
    combined = combine("n1", {"large": large, "small": small}, {})
    assert combined.plugins == ("small",)
    assert "bytes, but at most 98304 are allowed" in combined.failures["large"]
    text = encode_node_info(combined.info)
    assert len(text) <= MAX_ANNOTATION_BYTES
    assert parse_node_info(text).allocatable == {CARD: 1}


def test_the_size_of_an_annotation_is_counted_in_bytes() -> None:
    letters = NodeInfo("n1", allocatable={f"resource/group/{'字' * 200}/{n}/leaf": 1 for n in range(250)})
    assert "letters" in combine("n1", {"letters": letters}, {}).failures


def test_a_plugin_with_too_many_resources_is_left_out() -> None:
    many = NodeInfo("n1", allocatable={f"a{n}": 1 for n in range(3000)})
    more = NodeInfo("n1", allocatable={f"b{n}": 1 for n in range(3000)})
    combined = combine("n1", {"many": many, "more": more}, {})
    assert combined.failures == {"more": "there would be 6000 resources, but at most 4096 are allowed"}
    extended = [
        NodeInfo("n1", kube_cap=dict.fromkeys(names, 1), kube_alloc=dict.fromkeys(names, 1))
        for names in ([f"larder.dev/a{n}" for n in range(60)], [f"larder.dev/b{n}" for n in range(60)])
    ]
    combined = combine("n1", dict(zip("ab", extended, strict=True)), {})
    assert combined.failures == {"b": "there would be 120 extended resources, but at most 64 are allowed"}


def test_only_extended_resources_need_no_annotation() -> None:
    assert is_empty(NodeInfo("n1", kube_cap={"larder.dev/a": 1}, kube_alloc={"larder.dev/a": 1}))
    assert not is_empty(NodeInfo("n1", unknown={"vendor": 1}))
    assert not is_empty(NodeInfo("n1", used={CARD: 1}))
