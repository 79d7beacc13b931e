"""`schedule` chooses node and devices: tables of trees, scorers, init containers, reasons, and limits."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.devices.accounting import take
from controller.devices.group_scheduler import GroupScheduler
from controller.devices.plugin import DeviceFit
from controller.devices.refusal_reasons import PluginFailure, Shortage
from controller.devices.schedule import DeviceDecision, schedule
from controller.devices.scorers import ENUM, LEFTOVER
from shared.devices.annotation import InvalidDeviceInfo, node_info_from, pod_info_from, pod_info_json
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo, copy_node, copy_pod

PREFIX = "resource/group/"


def named(resources: dict[str, int]) -> dict[str, int]:
    return {PREFIX + name: amount for name, amount in resources.items()}


def a_node(allocatable: dict[str, int], used: dict[str, int] | None = None) -> dict[str, Any]:
    return {"name": "n", "capacity": named(allocatable), "allocatable": named(allocatable), "used": named(used or {})}


def a_pod(init: dict[str, dict[str, int]] | None = None, **running: dict[str, int]) -> dict[str, Any]:
    def containers(each: dict[str, dict[str, int]]) -> dict[str, Any]:
        return {name: {"requests": named(requests)} for name, requests in each.items()}

    return {"podname": "p", "initcontainer": containers(init or {}), "runningcontainer": containers(running)}


def got(decision: DeviceDecision) -> dict[str, dict[str, str]]:
    """Return the allocation of each container, without the prefixes."""
    found = decision.pod.init_containers | decision.pod.running_containers
    return {
        name: {key.removeprefix(PREFIX): value.removeprefix(PREFIX) for key, value in each.allocate_from.items()}
        for name, each in found.items()
    }


FLAT = a_node(
    {"gpu/a/cards": 1, "gpu/a/memory": 40, "gpu/b/cards": 1, "gpu/b/memory": 80, "gpu/c/cards": 1, "gpu/c/memory": 80}
)
PAIRS = a_node(
    {f"gpugrp0/{pair}/gpu/{card}/cards": 1 for pair, card in (("x", "a"), ("x", "b"), ("y", "c"), ("y", "d"))}
)
# Cards of different sizes, and the same in two groups.
SIZES = {"a": 100, "b": 250, "c": 260, "d": 200, "e": 180}
MIXED = a_node(
    {
        f"gpu/{card}/{leaf}": size if leaf == "memory" else 1
        for card, size in SIZES.items()
        for leaf in ("cards", "memory")
    }
)
SPLIT = a_node(
    {
        f"gpugrp0/{'x' if card in 'ab' else 'y'}/gpu/{card}/{leaf}": size if leaf == "memory" else 1
        for card, size in SIZES.items()
        for leaf in ("cards", "memory")
    }
)
LINKS = a_node(
    {f"gpugrp1/{board}/bandwidth": 16 for board in "xy"}
    | {f"gpugrp1/{board}/gpugrp0/0/gpu/{board}{card}/cards": 1 for board in "xy" for card in range(2)}
)
BOARDS = a_node({f"gpugrp1/{b}/gpugrp0/{p}/gpu/{c}/cards": 1 for b in range(2) for p in range(2) for c in range(2)})


@pytest.mark.parametrize(
    ("node", "pod", "score", "expected"),
    [
        pytest.param(
            FLAT,
            a_pod(main={"gpu/0/memory": 40}),
            1 / 6,  # a full card of 40 beside two empty ones; the cards themselves are not asked for
            {"main": {"gpu/0/memory": "gpu/a/memory"}},
            id="the fullest place wins",
        ),
        pytest.param(
            FLAT,
            a_pod(main={"gpu/0/cards": 1, "gpu/0/memory": 80}),
            2 / 6,
            {"main": {"gpu/0/cards": "gpu/c/cards", "gpu/0/memory": "gpu/c/memory"}},
            id="the later of equal places wins",
        ),
        pytest.param(
            FLAT,
            a_pod(one={"gpu/0/memory": 30}, two={"gpu/0/memory": 20}),
            (30 / 40 + 20 / 80) / 6,
            {"one": {"gpu/0/memory": "gpu/a/memory"}, "two": {"gpu/0/memory": "gpu/c/memory"}},
            id="containers add up",
        ),
        pytest.param(
            FLAT,
            a_pod(one={"gpu/0/memory": 60}, two={"gpu/0/memory": 20}),
            (60 / 80 + 20 / 80) / 6,
            {"one": {"gpu/0/memory": "gpu/c/memory"}, "two": {"gpu/0/memory": "gpu/c/memory"}},
            id="a place that the pod uses comes before a fuller one",
        ),
        pytest.param(
            FLAT,
            a_pod({"first": {"gpu/0/memory": 70}}, main={"gpu/0/memory": 60}),
            (60 / 80) / 6,  # the extra use of the init container does not count
            {"first": {"gpu/0/memory": "gpu/c/memory"}, "main": {"gpu/0/memory": "gpu/c/memory"}},
            id="an init container uses the same device again",
        ),
        pytest.param(
            PAIRS,
            a_pod(main={"gpugrp0/A/gpu/0/cards": 1, "gpugrp0/A/gpu/1/cards": 1}),
            0.5,
            {
                "main": {
                    "gpugrp0/A/gpu/0/cards": "gpugrp0/y/gpu/d/cards",
                    "gpugrp0/A/gpu/1/cards": "gpugrp0/y/gpu/c/cards",
                }
            },
            id="one group in one place",
        ),
        pytest.param(
            PAIRS,
            a_pod(main={"gpugrp0/A/gpu/0/cards": 1, "gpugrp0/B/gpu/0/cards": 1}),
            0.5,
            {
                "main": {
                    "gpugrp0/A/gpu/0/cards": "gpugrp0/y/gpu/d/cards",
                    "gpugrp0/B/gpu/0/cards": "gpugrp0/y/gpu/c/cards",
                }
            },
            id="two groups may share a place",
        ),
        pytest.param(
            PAIRS,
            a_pod(main={"gpu/0/cards": 1}),
            0.25,
            {"main": {"gpugrp0/0/gpu/0/cards": "gpugrp0/y/gpu/d/cards"}},
            id="lifted by one level",
        ),
        pytest.param(
            BOARDS,
            a_pod(main={f"gpu/{card}/cards": 1 for card in range(3)}),
            3 / 8,
            {
                "main": {
                    "gpugrp1/0/gpugrp0/0/gpu/0/cards": "gpugrp1/1/gpugrp0/1/gpu/1/cards",
                    "gpugrp1/1/gpugrp0/1/gpu/1/cards": "gpugrp1/1/gpugrp0/1/gpu/0/cards",
                    "gpugrp1/2/gpugrp0/2/gpu/2/cards": "gpugrp1/1/gpugrp0/0/gpu/1/cards",
                }
            },
            id="lifted by two levels, and kept together",
        ),
        pytest.param(
            a_node({"gpu/a/cards": 1, "gpu/a/enumType": 0b01, "gpu/b/cards": 1, "gpu/b/enumType": 0b10}),
            a_pod(main={"gpu/0/cards": 1, "gpu/0/enumType": 0b101}),
            0.5,
            {"main": {"gpu/0/cards": "gpu/a/cards", "gpu/0/enumType": "gpu/a/enumType"}},
            id="one of the bits is enough",
        ),
        pytest.param(
            a_node({"gpu/a/cards": 1, "gpu/b/cards": 1}, {"gpu/b/cards": 1}),
            a_pod(main={"gpu/0/cards": 1}),
            1.0,
            {"main": {"gpu/0/cards": "gpu/a/cards"}},
            id="devices in use are skipped",
        ),
        pytest.param(
            MIXED,
            a_pod(
                {"init": {"gpu/0/cards": 1, "gpu/0/memory": 100}},
                one={"gpu/a/cards": 1, "gpu/a/memory": 250, "gpu/b/cards": 1, "gpu/b/memory": 180},
                two={"gpu/0/cards": 1, "gpu/0/memory": 190},
            ),
            (1 + 190 / 200 + 1 + 3) / 10,
            {
                "one": {
                    "gpu/a/cards": "gpu/b/cards",
                    "gpu/a/memory": "gpu/b/memory",
                    "gpu/b/cards": "gpu/e/cards",
                    "gpu/b/memory": "gpu/e/memory",
                },
                "two": {"gpu/0/cards": "gpu/d/cards", "gpu/0/memory": "gpu/d/memory"},
                "init": {"gpu/0/cards": "gpu/e/cards", "gpu/0/memory": "gpu/e/memory"},
            },
            id="each gets the card that it fills best, and an init container the last of those",
        ),
        pytest.param(
            SPLIT,
            a_pod(one={"gpu/a/cards": 1, "gpu/a/memory": 250, "gpu/b/cards": 1, "gpu/b/memory": 180}),
            (1 + 180 / 260 + 2) / 10,  # c was tried for the larger request, and counts as used, as in KubeDevice
            {
                "one": {
                    "gpugrp0/0/gpu/a/cards": "gpugrp0/x/gpu/b/cards",
                    "gpugrp0/0/gpu/a/memory": "gpugrp0/x/gpu/b/memory",
                    "gpugrp0/1/gpu/b/cards": "gpugrp0/y/gpu/c/cards",
                    "gpugrp0/1/gpu/b/memory": "gpugrp0/y/gpu/c/memory",
                }
            },
            id="lifted by one level, with two leaves of a card",
        ),
        pytest.param(
            LINKS,
            a_pod(
                one={"gpugrp1/0/bandwidth": 10, "gpugrp1/0/gpugrp0/0/gpu/0/cards": 1},
                two={"gpugrp1/0/bandwidth": 10, "gpugrp1/0/gpugrp0/0/gpu/0/cards": 1},
            ),
            (2 * 10 / 16 + 2) / 6,
            {
                "one": {
                    "gpugrp1/0/bandwidth": "gpugrp1/y/bandwidth",
                    "gpugrp1/0/gpugrp0/0/gpu/0/cards": "gpugrp1/y/gpugrp0/0/gpu/y1/cards",
                },
                "two": {
                    "gpugrp1/0/bandwidth": "gpugrp1/x/bandwidth",
                    "gpugrp1/0/gpugrp0/0/gpu/0/cards": "gpugrp1/x/gpugrp0/0/gpu/x1/cards",
                },
            },
            id="a leaf of the group decides with the cards below it",
        ),
        pytest.param(
            a_node({"gpu/a/cards": 1, "gpu/a/enumType": 1, "gpu/b/cards": 1}, {"gpu/b/cards": 1}),
            a_pod(main={"gpu/0/cards": 0, "gpu/0/enumType": 0, "gpu/1/cards": 1}),
            2 / 3,
            {"main": {"gpu/1/cards": "gpu/a/cards"}},
            id="a request of 0 asks for nothing",
        ),
        pytest.param(
            a_node({"bandwidth": 100}),
            a_pod(main={"bandwidth": 25}),
            0.25,
            {"main": {"bandwidth": "bandwidth"}},
            id="a leaf outside all groups",
        ),
    ],
)
def test_allocations_and_scores_match_the_table(
    node: dict[str, Any], pod: dict[str, Any], score: float, expected: dict[str, dict[str, str]]
) -> None:
    decision = schedule([node], pod)
    assert decision.reasons == {}
    assert (decision.node, decision.pod.node_name) == ("n", "n")
    assert got(decision) == expected
    assert decision.scores == {"n": pytest.approx(score)}


def test_an_existing_allocation_is_checked_and_scored_but_not_changed() -> None:
    first = schedule([BOARDS], a_pod(main={"gpu/0/cards": 1, "gpu/1/cards": 1}))
    assert schedule([BOARDS], pod_info_json(first.pod)) == first
    gone = a_node({key.removeprefix(PREFIX): 1 for key in list(BOARDS["allocatable"])[:4]})
    again = schedule([gone], first.pod)
    assert again.node is None
    assert {each.resource for each in again.reasons["n"] if isinstance(each, Shortage)} == set(
        first.pod.running_containers["main"].dev_requests
    )


def test_an_allocation_for_another_node_is_forgotten() -> None:
    first = schedule([PAIRS], a_pod(main={"gpu/0/cards": 1}))
    moved = schedule([FLAT | {"name": "other"}], first.pod)
    assert got(moved) == {"main": {"gpu/0/cards": "gpu/c/cards"}}
    assert moved.pod.node_name == "other"


def test_a_requested_number_of_cards_becomes_requests_for_single_cards() -> None:
    pod = PodInfo("p", running_containers={"main": ContainerInfo(kube_requests={"nvidia.com/gpu": 2})})
    assert got(schedule([FLAT], pod)) == {"main": {"gpu/0/cards": "gpu/c/cards", "gpu/1/cards": "gpu/b/cards"}}


def test_a_request_of_0_is_no_card() -> None:
    pod = a_pod(main={"gpu/0/cards": 0})
    pod["runningcontainer"]["main"]["requests"]["nvidia.com/gpu"] = 1
    decision = schedule([FLAT], pod)
    assert got(decision) == {"main": {"gpu/0/cards": "gpu/c/cards"}}
    main = decision.pod.running_containers["main"]
    assert main.requests == pod["runningcontainer"]["main"]["requests"]
    assert main.dev_requests[f"{PREFIX}gpu/0/cards"] == 1


def test_cards_in_the_node_status_count_and_the_fuller_node_wins() -> None:
    nodes = [NodeInfo(f"n{count}", kube_alloc={"nvidia.com/gpu": count}) for count in (8, 4, 0)]
    pod = PodInfo("p", running_containers={"main": ContainerInfo(kube_requests={"nvidia.com/gpu": 4})})
    decision = schedule(nodes, pod)
    assert decision.node == "n4"
    assert decision.scores == {"n0": 0.0, "n4": 1.0, "n8": 0.5}
    assert decision.reasons == {"n0": (Shortage("main", "nvidia.com/gpu", 4, 0, 0),)}
    assert all(not node.allocatable for node in nodes)


@pytest.mark.parametrize("of_pod", [True, False])
def test_cards_requested_by_topology_follow_the_best_tree(*, of_pod: bool) -> None:
    wanted_devices = {"gpu/gpu-generate-topology": 1}
    container = ContainerInfo(requests={"nvidia.com/gpu": 2} | ({} if of_pod else wanted_devices))
    pod = PodInfo("p", requests=wanted_devices if of_pod else {}, running_containers={"main": container})
    decision = schedule([BOARDS, FLAT | {"name": "flat"}], pod)
    assert decision.node == "n"
    assert got(decision) == {
        "main": {
            "gpugrp1/0/gpugrp0/0/gpu/0/cards": "gpugrp1/1/gpugrp0/1/gpu/1/cards",
            "gpugrp1/0/gpugrp0/0/gpu/1/cards": "gpugrp1/1/gpugrp0/1/gpu/0/cards",
        }
    }
    refused = schedule([FLAT], pod)
    assert "no node has 2 cards grouped" in str(refused.reasons["n"][0])


def test_the_best_tree_is_chosen_among_the_present_nodes() -> None:
    scheduler = GroupScheduler()
    boards = node_info_from(BOARDS | {"name": "boards"})

    def fits() -> bool:
        container = ContainerInfo(dev_requests={"nvidia.com/gpu": 2}, requests={"nvidia.com/gpu": 2})
        pod = PodInfo("p", requests={"gpu/gpu-generate-topology": 1}, running_containers={"main": container})
        return scheduler.pod_fits_device(copy_node(boards), pod, fill_allocate_from=True).fits

    assert not fits()
    scheduler.add_node("boards", boards)
    assert fits()
    scheduler.remove_node("boards")
    assert not fits()


def test_a_topology_is_found_in_a_large_cluster_for_many_containers() -> None:
    nodes = [NodeInfo(f"n{i}", allocatable=BOARDS["allocatable"], used={f"{PREFIX}gpu/{i}/x": 1}) for i in range(500)]
    containers = {f"c{i}": ContainerInfo() for i in range(64)}
    pod = PodInfo("p", requests={"gpu/gpu-generate-topology": 1}, running_containers=containers)
    assert schedule(nodes, pod).node == "n0", "and not after half a minute, as if each container compared all nodes"


def test_a_topology_that_is_not_supported_is_refused() -> None:
    pod = PodInfo("p", requests={"gpu/gpu-generate-topology": 2}, running_containers={"main": ContainerInfo()})
    assert "the value is 2; 0 and 1 are supported" in str(schedule([FLAT], pod).reasons["n"][0])


def test_the_scorer_of_the_container_decides_the_score() -> None:
    node = a_node({"gpu/a/kinds": 0b11}) | {"scorer": named({"gpu/a/kinds": ENUM})}
    pod = a_pod(main={"gpu/0/kinds": 0b01})
    assert schedule([node], pod).scores == {"n": 1 / 2}
    pod["runningcontainer"]["main"]["scorer"] = named({"gpu/0/kinds": LEFTOVER})
    assert schedule([node], pod).scores == {"n": pytest.approx(1 / 3)}


def test_the_scorer_of_a_container_survives_translation() -> None:
    pod = a_pod(main={"gpu/0/cards": 1})
    pod["runningcontainer"]["main"]["scorer"] = named({"gpu/0/cards": ENUM})
    node = a_node({"gpugrp0/x/gpu/a/cards": 3})
    assert schedule([node], pod).scores == {"n": 1 / 2}


def test_a_container_cannot_free_a_used_device_by_another_scorer() -> None:
    pod = a_pod(main={"gpu/0/cards": 1})
    pod["runningcontainer"]["main"]["scorer"] = named({"gpu/0/cards": ENUM})
    assert schedule([a_node({"gpu/a/cards": 1}, {"gpu/a/cards": 1})], pod).node is None


def test_a_sidecar_without_devices_does_not_hide_the_score() -> None:
    assert schedule([PAIRS], a_pod(main={"gpu/0/cards": 1}, sidecar={})).scores == {"n": 0.25}


def test_an_overused_device_does_not_keep_pods_off_other_devices() -> None:
    node = a_node({"gpu/a/cards": 0, "gpu/b/cards": 1}, {"gpu/a/cards": 2})
    assert got(schedule([node], a_pod(main={"gpu/0/cards": 1}))) == {"main": {"gpu/0/cards": "gpu/b/cards"}}


@pytest.mark.parametrize(
    ("node", "pod", "shortages"),
    [
        (FLAT, a_pod(main={"gpu/0/memory": 100}), [("main", "gpu/0/memory", 100, 0, 40)]),
        (FLAT, a_pod(main={"tpu/0/chips": 1}), [("main", "tpu/0/chips", 1, 0, 0)]),
        (
            a_node({"bandwidth": 100}, {"bandwidth": 60}),
            a_pod(main={"bandwidth": 50}),
            [("main", "bandwidth", 50, 60, 100)],
        ),
        (
            PAIRS,
            a_pod(main={f"gpugrp0/A/gpu/{i}/cards": 1 for i in range(3)}),
            [("main", "gpugrp0/A/gpu/2/cards", 1, 1, 1)],
        ),
        (PAIRS, a_pod({"first": {"tpu/0/chips": 1}}, main={"gpu/0/cards": 1}), [("first", "tpu/0/chips", 1, 0, 0)]),
        ({"name": "n"}, a_pod(main={"gpu/0/cards": 1}), [("main", "gpu/0/cards", 1, 0, 0)]),
    ],
    ids=[
        "too little on each device",
        "no such group",
        "a leaf",
        "a third card of two",
        "an init container",
        "no devices",
    ],
)
def test_reasons_name_container_resource_and_amounts(
    node: dict[str, Any], pod: dict[str, Any], shortages: list[tuple[str, str, int, int, int]]
) -> None:
    decision = schedule([node], pod)
    assert decision.node is None
    assert decision.scores == {"n": 0.0}
    assert decision.pod == pod_info_from(pod)
    expected = tuple(Shortage(name, PREFIX + resource, *amounts) for name, resource, *amounts in shortages)
    assert decision.reasons == {"n": expected}


def test_a_shortage_is_described_in_words() -> None:
    reason = schedule([FLAT], a_pod(main={"gpu/0/memory": 100})).reasons["n"][0]
    assert str(reason) == "container main: resource/group/gpu/0/memory: requested 100, used 0, capacity 40"


def test_a_pod_without_device_requests_fits_everywhere() -> None:
    decision = schedule([FLAT | {"name": "b"}, {"name": "a"}], {"runningcontainer": {"main": {"requests": {"cpu": 9}}}})
    assert (decision.node, decision.scores, decision.reasons) == ("a", {"a": 0.0, "b": 0.0}, {})


def test_scheduling_without_nodes_gives_an_empty_decision() -> None:
    assert schedule([], {}) == DeviceDecision(None, PodInfo(), {}, {})


def test_duplicate_nodes_and_malformed_pods_are_refused() -> None:
    with pytest.raises(ValueError, match="two nodes are named 'n'"):
        schedule([FLAT, PAIRS], {})
    with pytest.raises(InvalidDeviceInfo, match="runningcontainer is a list"):
        schedule([FLAT], {"runningcontainer": []})


def test_scheduling_does_not_change_its_arguments() -> None:
    node, pod = node_info_from(PAIRS), pod_info_from(a_pod(main={"gpu/0/cards": 1}))
    before = copy_pod(pod)
    schedule([node], pod)
    assert (node, pod) == (node_info_from(PAIRS), before)


def test_excessive_requests_end_with_a_reason() -> None:
    levels = [f"g0/{i}/g1/{j}/g2/{k}/x/{m}" for i in range(4) for j in range(4) for k in range(4) for m in range(4)]
    node = a_node({f"{level}/size": 300 + i for i, level in enumerate(levels)})  # no two places are equal
    pod = a_pod(main={f"{level}/size": 600 if level.endswith("3") else 1 + i for i, level in enumerate(levels)})
    decision = schedule([node | {"name": f"n{i}", "used": named({f"{levels[0]}/size": i})} for i in range(2)], pod)
    assert decision.node is None
    assert "no allocation found within" in str(decision.reasons["n0"][-1])
    huge = schedule([FLAT], PodInfo("p", running_containers={"m": ContainerInfo(requests={"nvidia.com/gpu": 2**62})}))
    assert huge.reasons == {"n": (Shortage("m", "nvidia.com/gpu", 2**62, 0, 3),)}


def test_a_pod_may_take_a_whole_node_of_64_cards() -> None:
    names = [f"gpugrp1/{i}/gpugrp0/{j}/gpu/{k}/cards" for i in range(4) for j in range(4) for k in range(4)]
    decision = schedule([a_node(dict.fromkeys(names, 1))], a_pod(main=dict.fromkeys(names, 1)))
    assert decision.scores == {"n": 1.0}
    assert set(got(decision)["main"].values()) == set(names)


places = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=3)
requests = st.dictionaries(
    st.sampled_from([f"gpugrp0/{i}/gpu/{j}/memory" for i in "AB" for j in range(3)]), st.sampled_from([1, 2, 4])
)


@given(places, st.lists(requests, max_size=3), requests)
def test_searching_one_of_several_equal_places_gives_the_same_result_as_searching_all(
    used: list[list[int]], running: list[dict[str, int]], init: dict[str, int]
) -> None:
    """On the second node, a leaf with a unique name makes each place different, and changes all scores alike."""
    cards = {f"gpugrp0/{i}/gpu/{i}{j}": use for i, each in enumerate(used) for j, use in enumerate(each)}
    use = {f"{card}/memory": use for card, use in cards.items()}
    equal = a_node(dict.fromkeys(use, 4), use)
    different = a_node(dict.fromkeys(use, 4) | {f"{card}/tag{i}": 0 for i, card in enumerate(cards)}, use)
    pod = a_pod({"init": init}, **{f"c{i}": each for i, each in enumerate(running)})
    one, each = schedule([equal], pod), schedule([different], pod)
    assert got(one) == got(each)
    assert one.reasons == each.reasons


def test_the_example_in_the_docs_runs() -> None:
    page = (Path(__file__).parents[4] / "docs" / "devices.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "docs/devices.md", "exec"), {})  # noqa: S102 - our own page


class Plugin:
    """A scheduler plugin with a fixed answer."""

    name, using_group_scheduler = "toy", True

    def __init__(self, answer: Any, *, adds: bool = True) -> None:
        self._answer, self._adds = answer, adds

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        if not self._adds:
            raise KeyError(node_name)
        node_info.allocatable |= named({f"toys/{node_name}/count": 3})

    def remove_node(self, node_name: str) -> None:
        pass

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> Any:  # noqa: ARG002, FBT001 - the interface
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    pod_allocate = take_pod_resources = return_pod_resources = lambda *_: None


def test_plugins_refuse_score_and_complete_nodes() -> None:
    pod = a_pod(main={"toys/0/count": 1})
    assert schedule([FLAT], pod).node is None
    assert schedule([FLAT], pod, [Plugin(DeviceFit(fits=True, score=2.0))]).scores == {
        "n": pytest.approx(2 + 1 / 3 / 7)
    }
    refusal = Shortage("main", "toys", 1, 0, 0)
    refused = schedule([FLAT], pod, [Plugin((False, [refusal], 5.0))])
    assert (refused.node, refused.scores, refused.reasons) == (None, {"n": 0.0}, {"n": (refusal,)})


@pytest.mark.parametrize(
    "answer", [RuntimeError("out of toys"), None, (True,), (True, [], float("nan")), (True, 3, 1.0)]
)
def test_a_plugin_that_fails_refuses_the_node(answer: Any) -> None:
    decision = schedule([FLAT], {}, [Plugin(answer)])
    assert decision.node is None
    (reason,) = decision.reasons["n"]
    assert isinstance(reason, PluginFailure)
    assert "toy: pod_fits_device" in str(reason)


def test_no_pod_fits_on_a_node_that_a_plugin_failed_to_add() -> None:
    decision = schedule([FLAT], {}, [Plugin(DeviceFit(fits=True), adds=False)])
    assert decision.reasons == {"n": (PluginFailure("toy", "add_node failed: KeyError: 'n'"),)}


trees = st.dictionaries(
    st.sampled_from(
        [f"gpugrp0/{i}/gpu/{j}/{leaf}" for i in range(2) for j in range(2) for leaf in ("cards", "memory")]
    ),
    st.integers(0, 3),
    max_size=6,
).map(named)
some_containers = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(trees, trees, some_containers, some_containers)
def test_allocated_devices_were_free_and_stay_in_their_groups(
    allocatable: dict[str, int],
    used: dict[str, int],
    running: dict[str, dict[str, int]],
    init: dict[str, dict[str, int]],
) -> None:
    node = NodeInfo("n", allocatable=allocatable, used=used)
    pod = PodInfo(
        running_containers={name: ContainerInfo(requests=each) for name, each in running.items()},
        init_containers={f"i{name}": ContainerInfo(requests=each) for name, each in init.items()},
    )
    decision = schedule([node], pod)
    assert (decision.node is None) == bool(decision.reasons)
    if decision.node is None:
        return
    for container in (*decision.pod.running_containers.values(), *decision.pod.init_containers.values()):
        assert container.allocate_from.keys() == container.dev_requests.keys()
        places: dict[str, str] = {}
        for asked, given_name in container.allocate_from.items():
            for depth in (4, 6):
                here, there = ("/".join(name.split("/")[:depth]) for name in (asked, given_name))
                assert places.setdefault(here, there) == there
    before = dict(node.used)
    take(node, decision.pod)
    assert all(amount <= allocatable[name] for name, amount in node.used.items() if amount > before.get(name, 0))
