"""Fits and allocations, and when they are computed again."""

import json
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

import pytest

from controller.devices.plugin import DeviceScheduler
from controller.devices.translation import CARDS, Levels, lift_to
from controller.extender.accounts import DeviceAccounts
from controller.extender.device_objects import DevicePod
from controller.extender.evaluator import MAX_STEPS, OUT_OF_TIME, FitEvaluator
from controller.extender.requested_devices import allocated_devices, requested_devices
from shared.devices.annotation import MAX_NAME_LENGTH, MAX_POD_RESOURCES
from shared.devices.info import NodeInfo, PodInfo
from tests.builders.devices import CARD, ScriptedPlugin, bound_pod, card, device_node, device_pod

LATER = float("inf")


def evaluator_for(accounts: DeviceAccounts, plugins: Iterable[DeviceScheduler] = ()) -> FitEvaluator:
    evaluator = FitEvaluator(list(plugins), monotonic)
    evaluator.sync(accounts.changes())
    return evaluator


def allocated(pod: DevicePod) -> PodInfo:
    info = allocated_devices(pod)
    assert info is not None
    return info


@pytest.fixture
def accounts() -> DeviceAccounts:
    found = DeviceAccounts()
    for name in ("n1", "n2", "n3"):
        found.node_changed(None, device_node(name, {card("a"): 1, card("b"): 1}))
    found.node_changed(None, device_node("bare"))
    found.node_changed(None, device_node("bad", annotation="{"))
    return found


def test_reasons_name_container_resource_and_numbers(accounts: DeviceAccounts) -> None:
    accounts.pod_changed(None, bound_pod("p", "n1", "a"))
    requested = requested_devices(device_pod("q", {CARD: 2}))
    one, bare, bad, gone = evaluator_for(accounts).fits(requested, ["n1", "bare", "bad", "gone"], LATER)
    assert not any(each.fits for each in (one, bare, bad, gone))
    assert one.reason == f"container main: {CARD}: requested 2, used 1, capacity 1"
    assert bare.reason == f"container main: {CARD}: requested 2, used 0, capacity 0"
    assert bad.reason.startswith("annotation KubeDevice/DeviceInfo of the node: the text is not JSON")
    assert gone.reason == "the node's devices are not known yet"


def test_a_bound_pod_uses_its_devices_until_it_is_deleted(accounts: DeviceAccounts) -> None:
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 1, card("1"): 1}))
    assert evaluator.fits(requested, ["n1"], LATER)[0].fits
    pod = bound_pod("p", "n1", "a")
    accounts.pod_changed(None, pod)
    evaluator.sync(accounts.changes())
    assert not evaluator.fits(requested, ["n1"], LATER)[0].fits
    accounts.pod_changed(pod, None)
    evaluator.sync(accounts.changes())
    assert evaluator.fits(requested, ["n1"], LATER)[0].fits


def test_the_fuller_node_has_the_better_score(accounts: DeviceAccounts) -> None:
    accounts.pod_changed(None, bound_pod("p", "n2", "a"))
    fits = evaluator_for(accounts).fits(requested_devices(device_pod("q", {CARD: 1})), ["n1", "n2"], LATER)
    assert [fit.score for fit in fits] == [0.5, 1.0]


def test_plugins_are_asked_for_each_node_once_until_it_changes(accounts: DeviceAccounts) -> None:
    plugin = ScriptedPlugin()
    evaluator, requested = evaluator_for(accounts, [plugin]), requested_devices(device_pod("q", {CARD: 1}))
    for _ in range(2):
        evaluator.fits(requested, ["n1", "n2"], LATER)
    assert plugin.asked == ["n1", "n2"]
    accounts.pod_changed(None, bound_pod("p", "n1", "a"))
    accounts.node_changed(device_node("n2"), None)
    evaluator.sync(accounts.changes())
    evaluator.fits(requested, ["n1"], LATER)
    assert plugin.asked == ["n1", "n2", "n1"]
    assert sorted(plugin.added) == ["bad", "bare", "n1", "n3"]


def test_equal_nodes_are_evaluated_once() -> None:
    accounts = DeviceAccounts()
    names = [f"n{i}" for i in range(400)]
    for name in names:
        accounts.node_changed(None, device_node(name, {card(str(i)): 1 for i in range(40)}))
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 1}))
    assert all(fit.fits for fit in evaluator.fits(requested, names, LATER))
    assert len(evaluator._results) == 1


def test_earlier_states_of_a_node_take_no_memory() -> None:
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("n", {card(str(i)): 100 for i in range(64)}))
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 1}))
    tracemalloc.start()
    for i in range(100):
        accounts.assume("uid-p", "n", allocated(bound_pod("p", "n", str(i % 64), value=i + 1)))
        evaluator.sync(accounts.changes())
        evaluator.fits(requested, ["n"], LATER)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(evaluator._results) >= 100
    assert kept_bytes < 100 * 3_000


def test_a_refusal_for_lack_of_time_is_not_remembered(accounts: DeviceAccounts) -> None:
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 1}))
    assert evaluator.fits(requested, ["n1"], 0.0)[0].reason == OUT_OF_TIME
    assert evaluator.fits(requested, ["n1"], LATER)[0].fits


def test_a_search_that_takes_too_many_steps_is_abandoned_and_reported() -> None:
    accounts = DeviceAccounts()
    offered = {f"resource/group/g/{i}/h/{j}/x": 1 + 60 * i + j for i in range(60) for j in range(60)}
    accounts.node_changed(None, device_node("n", offered))
    asks = {f"resource/group/g/{i}/h/{j}/x": 1 for i in range(9) for j in range(9)} | {"resource/group/g/0/y": 1}
    began = monotonic()
    fit = evaluator_for(accounts).fits(requested_devices(device_pod("q", asks)), ["n"], LATER)[0]
    assert "no allocation found within 20000 steps" in fit.reason
    assert monotonic() - began < 30


def _thousand_cards(*levels: str) -> dict[str, int]:
    """1,024 cards in groups of 8, and those in groups of 8."""
    groups = {"gpugrp1": 64, "gpugrp0": 8, "gpu": 1}
    places = ("".join(f"{level}/{i // groups[level]}/" for level in levels) for i in range(1024))
    return {f"resource/group/{place}cards": 1 for place in places}


@pytest.mark.parametrize("levels", [("gpu",), ("gpugrp0", "gpu"), ("gpugrp1", "gpugrp0", "gpu")])
@pytest.mark.parametrize("every", [1, 2, 3], ids=lambda every: f"one of {every} is free")
@pytest.mark.parametrize(
    "asks",
    [
        {CARDS: 1},
        {CARDS: 16},
        {f"resource/group/gpugrp0/A/gpu/{i}/cards": 1 for i in range(2)},
        {f"resource/group/gpugrp0/{i}/gpu/0/cards": 1 for i in range(8)},
    ],
    ids=["a card", "16 cards", "two in a group", "eight groups"],
)
def test_ordinary_requests_are_decided_on_a_node_with_1024_cards(
    levels: tuple[str, ...], every: int, asks: dict[str, int]
) -> None:
    accounts, offered = DeviceAccounts(), _thousand_cards(*levels)
    used = {name: 1 for i, name in enumerate(offered) if i * 7 % 11 % every}
    accounts.node_changed(None, device_node("n", annotation=json.dumps({"allocatable": offered, "used": used})))
    fit = evaluator_for(accounts).fits(requested_devices(device_pod("q", asks)), ["n"], LATER)[0]
    assert fit.fits == (len(levels) > 1 or CARDS in asks), fit.reason
    assert "steps" not in fit.reason


def test_a_node_with_64_cards_can_be_taken_as_a_whole() -> None:
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("n", dict(list(_thousand_cards("gpugrp1", "gpugrp0", "gpu").items())[:64])))
    assert evaluator_for(accounts).fits(requested_devices(device_pod("q", {CARDS: 64})), ["n"], LATER)[0].fits


def test_translation_counts_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts, made = DeviceAccounts(), list[int]()
    offered = {f"resource/group/gpugrp0/{i // 8}/gpu/{i}/cards": 1 for i in range(1024)}
    accounts.node_changed(None, device_node("n", offered))
    names = [f"c{i}" for i in range(64)]
    text = json.dumps({"runningcontainer": {name: {"requests": {CARDS: 1024}} for name in names}})
    pod = device_pod("q", annotation=text, containers=[{"name": name} for name in names])

    def lift(requests: Mapping[str, int], levels: Levels) -> dict[str, int]:
        made.append(len(requests))
        return lift_to(requests, levels)

    monkeypatch.setattr("controller.devices.group_scheduler.lift_to", lift)
    fit = evaluator_for(accounts).fits(requested_devices(pod), ["n"], LATER)[0]
    assert "no allocation found within 20000 steps" in fit.reason
    assert sum(made) < MAX_STEPS, "or this short annotation keeps all other pods waiting for a second"


def test_an_allocation_avoids_devices_assumed_for_other_pods(accounts: DeviceAccounts) -> None:
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 1}))
    taken = allocated(bound_pod("p", "n1", "b"))
    info = evaluator.allocate(requested, "n1", {"uid-p": taken})
    assert isinstance(info, PodInfo)
    assert (info.node_name, info.running_containers["main"].allocate_from) == ("n1", {CARD: card("a")})
    other = allocated(bound_pod("o", "n1", "a"))
    refused = evaluator.allocate(requested, "n1", {"uid-p": taken, "uid-o": other})
    assert refused == f"container main: {CARD}: requested 1, used 1, capacity 1"
    assert evaluator.allocate(requested, "gone", {}) == "node gone is gone"


def test_a_request_of_0_gets_no_device_of_another_pod(accounts: DeviceAccounts) -> None:
    accounts.pod_changed(None, bound_pod("p", "n1", "a"))
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", {CARD: 0, card("1"): 1}))
    found = evaluator.place(requested, "n1", "uid-q")
    assert found is not None
    assert found.running_containers["main"].allocate_from == {card("1"): card("b")}


def test_a_sidecar_and_a_later_init_container_do_not_share_devices() -> None:
    memory, setup = "resource/group/gpu/0/memory", {"name": "setup"}
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("n", {"resource/group/gpu/a/memory": 8}))
    init = {"sidecar": {"requests": {memory: 5}}, "setup": {"requests": {memory: 6}}}
    asks = json.dumps({"initcontainer": init, "runningcontainer": {"main": {"requests": {memory: 2}}}})
    sidecar, evaluator = {"name": "sidecar", "restartPolicy": "Always"}, evaluator_for(accounts)

    def fits(*init_containers: Mapping[str, str]) -> bool:
        pod = device_pod("q", annotation=asks, initContainers=init_containers)
        return evaluator.fits(requested_devices(pod), ["n"], LATER)[0].fits

    assert fits(setup, sidecar), "one after the other"
    assert not fits(sidecar, setup), "both at once need 11"


def test_plugins_are_asked_about_pods_that_differ_only_in_unknown_keys(accounts: DeviceAccounts) -> None:
    plugin = ScriptedPlugin()
    evaluator = evaluator_for(accounts, [plugin])
    for zone in ("a", "b"):
        asks = {"zone": zone, "runningcontainer": {"main": {"requests": {CARD: 1}}}}
        evaluator.fits(requested_devices(device_pod("q", annotation=json.dumps(asks))), ["n1"], LATER)
    assert plugin.asked == ["n1", "n1"]


CARD_IN_GROUP = "resource/group/gpugrp0/0/gpu/a/cards"
LONGEST_NAME = f"resource/group/gpu/{'y' * (MAX_NAME_LENGTH - len('resource/group/gpu//cards'))}/cards"


@pytest.mark.parametrize(
    ("offered", "asks", "reason"),
    [
        (card("a"), {CARDS: 1} | {f"x{i}": 1 for i in range(MAX_POD_RESOURCES - 1)}, "devrequests has 257 entries"),
        (CARD_IN_GROUP, {LONGEST_NAME: 1}, "a name of 522 characters"),
    ],
)
def test_an_allocation_that_could_not_be_read_back_is_refused(
    offered: str, asks: Mapping[str, int], reason: str
) -> None:
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("n", {offered: 1}))
    evaluator, requested = evaluator_for(accounts), requested_devices(device_pod("q", asks))
    fit, found = evaluator.fits(requested, ["n"], LATER)[0], evaluator.allocate(requested, "n", {})
    assert not fit.fits
    assert fit.reason == found
    assert fit.reason.startswith("its allocation could not be written to the pod: InvalidDeviceInfo: ")
    assert reason in fit.reason


def test_an_allocation_that_would_fill_the_lease_of_the_node_is_refused() -> None:
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("n", {f"resource/group/g/{'y' * 400}/enumKind": 1}))
    asks = {f"resource/group/g/{i}/enumKind": 1 for i in range(200)}
    fit = evaluator_for(accounts).fits(requested_devices(device_pod("q", asks)), ["n"], LATER)[0]
    assert "the limit is 65536; request fewer devices" in fit.reason


def test_whether_an_allocation_can_be_written_does_not_depend_on_names() -> None:
    """The answer is cached for all pods and nodes that differ only in their names."""
    nodes, accounts = ["n", "n" * 253], DeviceAccounts()
    for node in nodes:
        accounts.node_changed(None, device_node(node, {f"resource/group/g/{'y' * 400}/enumKind": 1}))
    evaluator, found = evaluator_for(accounts), set[bool]()
    for count in range(110, 130):
        for letters in range(0, 500, 100):
            asks = {f"resource/group/g/{i}/enumKind": 1 for i in range(count)} | {"x" * letters: 1}
            pods = [requested_devices(device_pod(name, asks)) for name in ("p", "p" * 253)]
            written = {isinstance(evaluator.allocate(pod, node, {}), PodInfo) for pod in pods for node in nodes}
            assert len(written) == 1
            found |= written
    assert found == {True, False}


def test_an_allocation_that_only_some_readers_could_read_back_is_refused(accounts: DeviceAccounts) -> None:
    text = f'{{"x": {"[" * 850}{"]" * 850}, "runningcontainer": {{"main": {{"requests": {{"{CARD}": 1}}}}}}}}'
    requested = requested_devices(device_pod("q", annotation=text))
    assert "could not be written" in evaluator_for(accounts).fits(requested, ["n1"], LATER)[0].reason


class Writes(ScriptedPlugin):
    """A plugin that changes the pods that it sees."""

    def __init__(self, write: Callable[[PodInfo], object]) -> None:
        super().__init__()
        self._write = write

    def pod_allocate(self, _: NodeInfo, pod_info: PodInfo) -> None:
        self._write(pod_info)


class Spoils(ScriptedPlugin):
    """A plugin that writes nonsense into one node."""

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        super().add_node(node_name)
        if node_name == "n1":
            node_info.allocatable[card("a")] = None  # type: ignore[assignment]


def test_a_node_that_a_plugin_spoils_is_refused_and_the_others_are_counted(accounts: DeviceAccounts) -> None:
    for name in ("n1", "n2", "n3"):
        accounts.pod_changed(None, bound_pod(f"p-{name}", name, "a"))
    plugin = Spoils()
    evaluator, requested = evaluator_for(accounts, [plugin]), requested_devices(device_pod("q", {CARD: 1}))
    spoiled, *others = evaluator.fits(requested, ["n1", "n2", "n3"], LATER)
    assert spoiled.reason.startswith("scheduler plugin odd: the node's devices cannot be counted: TypeError: ")
    assert evaluator.allocate(requested, "n1", {}) == spoiled.reason
    assert [fit.score for fit in others] == [1.0, 1.0]
    assert sorted(plugin.added) == ["bad", "bare", "n2", "n3"]
    accounts.pod_changed(bound_pod("p-n1", "n1", "a"), None)
    evaluator.sync(accounts.changes())
    assert "cannot be counted" not in evaluator.fits(requested, ["n1"], LATER)[0].reason, "it has no pod to count"
    refused = evaluator.allocate(requested, "n1", {"uid-p": allocated(bound_pod("p", "n1", "a"))})
    assert refused == spoiled.reason


@pytest.mark.parametrize("value", [-5, 2**64, "many", None, object()])
def test_nonsense_that_a_plugin_writes_is_refused(accounts: DeviceAccounts, value: object) -> None:
    plugin = Writes(lambda pod: pod.running_containers["main"].dev_requests.update({"z": value}))  # type: ignore[dict-item]
    found = evaluator_for(accounts, [plugin]).allocate(requested_devices(device_pod("q", {CARD: 1})), "n1", {})
    assert isinstance(found, str)
    assert found.startswith("its allocation could not be written to the pod: ")
