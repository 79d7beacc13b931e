"""A real agent advertises devices on its Node: annotation and extended resources, whatever its plugins do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.devices.decide import RECORD
from agent.devices.plugin import GROUP
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from shared.api.meta import Condition, condition_of
from shared.api.model_node import EntryState
from shared.devices.annotation import ANNOTATION
from tests.builders.distributions import install
from tests.integration.agent.conftest import RBAC, RULES
from tests.integration.agent.node_under_test import Bench
from tests.readers.metrics import scrape

ROLE = "larder-agent-with-devices"
FILES = {"config.json": b"{}", "model.safetensors": b"w" * 10_000}
CARDS = {f"resource/group/gpugrp0/{n // 2}/gpu/{n}/cards": 1 for n in range(4)}
EXTENDED = "larder.dev/example-gpu"
LIMIT = 10**9  # without a limit, what other programs write to the disk changes the advertised use of the store
# A plugin that does what a file says at that moment.
TOY = """
import json, os, pathlib, threading

FILE = pathlib.Path(os.environ["TOYS"]) / "{name}.json"


class Toy:
    name = "{name}"

    def new(self):
        pass

    def start(self):
        if self.read().get("start") == "fail":
            raise RuntimeError("no toy found")

    def read(self):
        return json.loads(FILE.read_text())

    def update_node_info(self, node_info):
        values = self.read()
        if values.get("update") == "hang":
            FILE.with_suffix(".hangs").touch()
            threading.Event().wait()
        if values.get("update") == "fail":
            raise RuntimeError("the toy is broken")
        node_info.allocatable = values.get("allocatable", {{}})
        node_info.kube_cap.update(values.get("kubecap", {{}}))
        node_info.kube_alloc.update(values.get("kubealloc", {{}}))

    def allocate(self, pod_info, container_info):
        return [], [], {{}}


make = Toy
"""


class DeviceBench:
    """A node whose agent advertises devices."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self._site = bench, bench.state / "site"
        bench.environ |= {"PYTHONPATH": str(self._site), "TOYS": str(bench.state)}
        bench.options = (*bench.options, "--devices", "true", "--device-seconds", "0.2")
        bench.options = (*bench.options, "--device-timeout-seconds", "5")

    def add_toy(self, name: str, **values: Any) -> None:
        """Install a plugin."""
        install(self._site, f"toy_{name}", GROUP, TOY.format(name=name))
        self.set_toy(name, **values)

    def set_toy(self, name: str, **values: Any) -> None:
        """Change what a plugin does from now on, in one step."""
        new = self.bench.state / f"{name}.new"
        new.write_text(json.dumps(values))
        new.rename(self.bench.state / f"{name}.json")

    def example(self, **values: Any) -> None:
        """Write the file of the plugin `example`."""
        (self.bench.state / "example.json").write_text(json.dumps(values))
        self.bench.options = (*self.bench.options, "--example-devices", str(self.bench.state / "example.json"))

    def node(self) -> dict[str, Any]:
        return self.bench.api.get(f"/api/v1/nodes/{self.bench.node}")

    def info(self) -> dict[str, Any]:
        """Return the device annotation; empty without one."""
        text = self.node()["metadata"].get("annotations", {}).get(ANNOTATION, "{}")
        found: dict[str, Any] = json.loads(text)
        return found

    def offers(self, name: str) -> bool:
        return name in self.info().get("allocatable", {})

    def extended(self) -> dict[str, tuple[str | None, str | None]]:
        """Return capacity and allocatable amount of the extended resources in the Node's status."""
        status = self.node().get("status", {})
        capacity, allocatable = status.get("capacity", {}), status.get("allocatable", {})
        return {k: (capacity.get(k), allocatable.get(k)) for k in capacity.keys() | allocatable.keys() if "/" in k}

    def record(self) -> str:
        return str(self.node()["metadata"].get("annotations", {}).get(RECORD, ""))

    def condition(self) -> Condition | None:
        return condition_of(self.bench.model_node().status.conditions, "DevicesAdvertised")

    def has_condition(self, status: str, reason: str) -> bool:
        found = self.condition()
        return found is not None and (found.status, found.reason) == (status, reason)

    def metric(self, name: str) -> float:
        return scrape(self.bench.url).get(name, 0.0)

    def wait_for_polls(self, count: int = 3) -> None:
        """Wait until the agent has asked its plugins a few more times."""
        goal = self.metric("larder_device_polls_total") + count
        self.wait(lambda: self.metric("larder_device_polls_total") >= goal, "more polls")

    def writes(self) -> float:
        return sum(self.metric(f'larder_device_writes_total{{what="{what}"}}') for what in ("annotations", "status"))

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.bench.wait_for(condition, what)


@pytest.fixture(scope="session")
def device_user(agent_plane: ControlPlane) -> Path:
    """The kubeconfig of a user who may also patch the status of Nodes, as the chart grants for devices."""
    api = agent_plane.api
    rules = [*RULES, {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]
    api.ensure(f"{RBAC}/clusterroles", {"metadata": {"name": ROLE}, "rules": rules})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ROLE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    api.ensure(f"{RBAC}/clusterrolebindings", {"metadata": {"name": ROLE}, "subjects": [subject], "roleRef": role})
    return agent_plane.kubeconfig_for(ROLE)


@pytest.fixture
def devices(bench: Bench, device_user: Path) -> DeviceBench:
    bench.kubeconfig = device_user
    return DeviceBench(bench)


def test_devices_are_advertised_and_not_written_again_while_unchanged(devices: DeviceBench) -> None:
    devices.example(allocatable=CARDS, kubecap={EXTENDED: 4})
    devices.bench.want(storage_limit=LIMIT)
    devices.bench.start()
    devices.wait(lambda: devices.extended() == {EXTENDED: ("4", "4")}, "the extended resource")
    info = devices.info()
    assert info["name"] == devices.bench.node
    assert CARDS.items() <= info["allocatable"].items()
    assert CARDS.items() <= info["capacity"].items()
    assert info["allocatable"]["resource/group/store/0/bytes"] > 0
    assert not {"kubecap", "kubealloc"} & info.keys()
    assert devices.record() == EXTENDED
    devices.wait(lambda: devices.has_condition("True", "AllPlugins"), "the condition")
    devices.wait_for_polls()
    written = devices.writes()
    devices.wait_for_polls(5)
    assert devices.writes() == written
    assert devices.metric('larder_device_plugin_advertised{plugin="example"}') == 1
    assert devices.metric('larder_device_resources{place="status"}') == 1


def test_a_model_is_advertised_as_a_device_until_it_is_draining(devices: DeviceBench) -> None:
    model = devices.bench.add_model("llama", FILES)
    leaf = "resource/group/model/llama/ready"
    devices.bench.want()
    devices.bench.start("--device-seconds", "600")
    devices.wait(lambda: bool(devices.info()), "the first annotation")
    assert not devices.offers(leaf)
    devices.bench.want(model.entry)
    devices.wait(lambda: devices.offers(leaf), "the model, long before the next poll")
    assert devices.offers("resource/group/model/llama/id/llama")
    assert devices.info()["scorer"][leaf] == 2
    devices.bench.want(msgspec.structs.replace(model.entry, state=EntryState.DRAINING))
    devices.wait(lambda: not devices.offers(leaf), "the model to be gone")


def test_broken_plugins_are_left_out_and_the_others_continue(devices: DeviceBench) -> None:
    devices.add_toy("fails", start="fail")
    devices.add_toy("hangs", update="hang")
    devices.add_toy("lies", allocatable={"resource/group/toy/9/cars": -1})
    devices.add_toy("raises", update="fail")
    devices.add_toy("steals", kubecap={"nvidia.com/gpu": 8})
    devices.add_toy("works", allocatable={"resource/group/toy/0/cars": 3}, kubecap={"larder.dev/cars": 3})
    install(devices.bench.state / "site", "toy_absent", GROUP, "raise OSError('no libtoy')\n")
    devices.bench.want()
    devices.bench.start()
    devices.wait(lambda: devices.extended() == {"larder.dev/cars": ("3", "3")}, "the plugin that works")
    assert devices.offers("resource/group/toy/0/cars")
    assert devices.offers("resource/group/store/0/bytes")
    assert not devices.offers("resource/group/toy/9/cars")
    devices.wait(lambda: devices.has_condition("False", "PluginFailed"), "the condition")
    condition = devices.condition()
    assert condition
    for phrase in (
        "toy_absent: device plugin toy_absent: load: OSError: no libtoy",
        "toy_fails: device plugin fails: start: RuntimeError: no toy found",
        "hangs: device plugin hangs: update_node_info: ",
        "lies: device plugin lies: update_node_info: InvalidDeviceInfo: allocatable",
        "raises: device plugin raises: update_node_info: RuntimeError: the toy is broken",
        "steals: device plugin steals: update_node_info: ValueError: kube_cap has nvidia.com/gpu",
    ):
        assert phrase in condition.message
    assert devices.metric('larder_device_plugin_advertised{plugin="works"}') == 1
    assert devices.metric('larder_device_plugin_advertised{plugin="hangs"}') == 0
    assert devices.bench.is_ready(), "models do not wait for devices"

    devices.set_toy("raises", allocatable={"resource/group/toy/1/cars": 1})
    devices.wait(lambda: devices.offers("resource/group/toy/1/cars"), "the plugin that works again")
    devices.set_toy("raises", update="fail")
    devices.wait(lambda: not devices.offers("resource/group/toy/1/cars"), "the plugin that fails again")
    assert devices.bench.count("device_plugin_left_out") >= 6


@pytest.mark.parametrize("text", ["{", "[]", '{"allocatable": {"a": -1}}', '{"name": 7}'])
def test_a_malformed_annotation_is_replaced(devices: DeviceBench, text: str) -> None:
    path = f"/api/v1/nodes/{devices.bench.node}"
    devices.bench.api.patch(path, {"metadata": {"annotations": {ANNOTATION: text}}})
    devices.bench.start()
    devices.wait(
        lambda: ANNOTATION in devices.node()["metadata"]["annotations"] and _is_ours(devices), "our annotation"
    )
    assert devices.bench.count("device_annotation_replaced") == 1


def _is_ours(devices: DeviceBench) -> bool:
    try:
        return devices.offers("resource/group/store/0/bytes")
    except (ValueError, AttributeError):
        return False


def test_unknown_keys_and_resources_of_others_are_kept(devices: DeviceBench) -> None:
    path = f"/api/v1/nodes/{devices.bench.node}"
    devices.bench.api.patch(path, {"metadata": {"annotations": {ANNOTATION: '{"vendor": {"a": 1}}', "x.org/y": "z"}}})
    others = {"larder.dev/of-somebody-else": "7", "nvidia.com/gpu": "8", "cpu": "4"}
    devices.bench.api.patch(f"{path}/status", {"status": {"capacity": others, "allocatable": others}})
    devices.add_toy("works", kubecap={"larder.dev/cars": 3})
    devices.bench.start()
    devices.wait(lambda: "larder.dev/cars" in devices.extended(), "the extended resource")
    devices.set_toy("works")
    devices.wait(lambda: "larder.dev/cars" not in devices.extended(), "it to be gone")
    assert devices.extended() == {"larder.dev/of-somebody-else": ("7", "7"), "nvidia.com/gpu": ("8", "8")}
    assert devices.info()["vendor"] == {"a": 1}
    assert devices.node()["metadata"]["annotations"]["x.org/y"] == "z"
    devices.wait(lambda: devices.record() == "", "the record to be empty")


def test_a_second_agent_takes_over_the_advertised_devices_and_can_withdraw_them(devices: DeviceBench) -> None:
    devices.example(allocatable=CARDS, kubecap={EXTENDED: 4, "larder.dev/other": 1})
    devices.bench.want(storage_limit=LIMIT)
    first = devices.bench.start()
    devices.wait(lambda: EXTENDED in devices.extended(), "the extended resources")
    devices.wait_for_polls()
    first.kill()
    (devices.bench.state / "example.json").write_text(json.dumps({"allocatable": CARDS, "kubecap": {EXTENDED: 4}}))
    second = devices.bench.start()
    devices.wait(lambda: devices.extended() == {EXTENDED: ("4", "4")}, "what is not offered any more to be gone")
    devices.wait(lambda: devices.record() == EXTENDED, "the record")
    second.kill()
    devices.bench.start()
    devices.wait_for_polls()
    assert devices.writes() == 0, "the third agent had nothing to change"
    devices.bench.agents[-1].kill()
    devices.bench.start("--withdraw-devices", "true")
    devices.wait(
        lambda: not devices.extended() and not devices.info() and not devices.record(), "everything to be gone"
    )


def test_the_capacity_is_lowered_when_kubelet_overrides_the_allocatable_amount(devices: DeviceBench) -> None:
    """Kubelet makes the whole capacity of an extended resource allocatable, so the capacity must be lowered."""
    devices.add_toy("works", kubecap={"larder.dev/cars": 4}, kubealloc={"larder.dev/cars": 3})
    devices.bench.want(storage_limit=LIMIT)
    devices.bench.start()
    devices.wait(lambda: devices.extended() == {"larder.dev/cars": ("4", "3")}, "the extended resource")
    path = f"/api/v1/nodes/{devices.bench.node}/status"
    devices.bench.api.patch(path, {"status": {"allocatable": {"larder.dev/cars": "4"}}})
    devices.wait(lambda: devices.extended() == {"larder.dev/cars": ("3", "3")}, "the capacity to be lowered")
    devices.wait_for_polls()  # the agent counts a write when it has the answer
    written = devices.writes()
    devices.wait_for_polls()
    assert devices.writes() == written
    devices.bench.agents[-1].kill()
    devices.bench.start()
    devices.wait_for_polls()
    assert devices.writes() == 0, "the next agent sees it on the Node"


def test_an_agent_that_may_not_patch_the_node_status_reports_it_and_models_continue(bench: Bench) -> None:
    devices = DeviceBench(bench)
    devices.add_toy("works", allocatable=CARDS, kubecap={"larder.dev/cars": 3})
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    devices.wait(lambda: devices.has_condition("False", "Refused"), "the condition")
    assert devices.extended() == {}
    assert CARDS.items() <= devices.info()["allocatable"].items()
    assert devices.metric("larder_devices_advertised") == 0


def test_devices_are_advertised_again_on_a_recreated_node(devices: DeviceBench) -> None:
    devices.example(allocatable=CARDS, kubecap={EXTENDED: 4})
    devices.bench.start()
    devices.wait(lambda: EXTENDED in devices.extended(), "the extended resource")
    devices.bench.api.delete(f"/api/v1/nodes/{devices.bench.node}")
    devices.bench.create_node()
    devices.wait(lambda: _has(devices), "the extended resource of the new Node")


def _has(devices: DeviceBench) -> bool:
    try:
        return EXTENDED in devices.extended() and devices.offers(next(iter(CARDS)))
    except CallRefused:  # between the two
        return False


def test_device_modules_and_annotations_are_absent_while_devices_are_off(bench: Bench) -> None:
    bench.environ["PYTHONPROFILEIMPORTTIME"] = "1"
    model = bench.add_model("m", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.answers("/metrics") == 200
    assert "agent.runtime" in bench.imported()
    assert [name for name in bench.imported() if name.startswith(("agent.devices", "shared.devices"))] == []
    assert ANNOTATION not in bench.api.get(f"/api/v1/nodes/{bench.node}")["metadata"].get("annotations", {})
