"""Container edits by an installed device plugin for a pod with allocated devices."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.dra import DRIVER, RESOURCES
from shared.json_object import Json
from tests.integration.dra.bench import CLASSES, DraBench

PLUGIN = """
import threading

from agent.devices.plugin import Mount

class Toys:
    name = "toys"

    def new(self):
        pass

    def start(self):
        pass

    def update_node_info(self, node_info):
        pass

    def allocate(self, pod_info, container_info):
        if "toys/broken" in container_info.allocate_from.values():
            raise RuntimeError("the toy is broken")
        if "toys/odd" in container_info.allocate_from.values():
            return "nonsense"
        if "toys/stuck" in container_info.allocate_from.values():
            threading.Event().wait()
        paths = [f"/dev/{place.rpartition('/')[2]}" for place in container_info.allocate_from.values()]
        return [Mount("/usr/lib/toys", "/opt/toys", True)], paths, {"TOYS": ",".join(paths)}
"""
ALLOW = {"mounts": ["/opt/toys"], "devices": ["/dev/fu*"], "env": ["TOYS"]}


@pytest.fixture
def toys(bench: DraBench, tmp_path: Path) -> DraBench:
    """A bench with the plugin installed; tests set its allow-list."""
    site = tmp_path / "site"
    info = site / "larder_toys-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "larder_toys.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: larder-toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[larder.devices]\ntoys = larder_toys:Toys\n")
    bench.environ["PYTHONPATH"] = str(site)
    return bench


def _claimed(bench: DraBench, place: str, node: str = "") -> Json:
    """Start the driver, and return the claim of a pod to which a scheduler allocated a device."""
    entry = bench.hold("tiny")
    bench.want(entry)
    bench.start_registered()
    bench.wait_devices(entry)
    return _claim(bench, place, node)


def _claim(bench: DraBench, place: str, node: str = "") -> Json:
    claim = bench.claim("model == 'tiny'")
    bench.own(claim, _pod(bench, claim, place, node))
    return claim


def _pod(bench: DraBench, claim: Json, place: str, node: str = "") -> Json:
    info = {
        "nodename": node or bench.node,
        "runningcontainer": {"main": {"requests": {"toy": 1}, "allocatefrom": {"toy": f"toys/{place}"}}},
    }
    return bench.pod(claim, annotations={"KubeDevice/DeviceInfo": json.dumps(info)})


def test_edits_on_the_allow_list_reach_the_container(toys: DraBench) -> None:
    toys.allow = json.dumps(ALLOW)
    claim = _claimed(toys, "fuse")
    toys.prepared(claim)
    (edits,) = toys.edits(claim)
    assert edits["deviceNodes"] == [{"path": "/dev/fuse"}]
    assert "TOYS=/dev/fuse" in edits["env"]
    added = [mount for mount in edits["mounts"] if mount["containerPath"] == "/usr/lib/toys"]
    assert [(mount["hostPath"], mount["options"][0]) for mount in added] == [("/opt/toys", "ro")]


def test_a_device_that_is_not_on_the_allow_list_is_refused_by_name(toys: DraBench) -> None:
    toys.allow = json.dumps(ALLOW)
    claim = _claimed(toys, "sda")
    assert "device /dev/sda" in toys.refused(claim)
    assert not toys.cdi_path(claim).exists()


def test_a_pod_with_devices_is_refused_a_claim_that_others_can_share(toys: DraBench) -> None:
    """Kubelet prepares a claim once: a second pod would get the devices of the first."""
    toys.allow = json.dumps(ALLOW)
    _claimed(toys, "fuse")
    shared = toys.claim("model == 'tiny'")
    for _ in range(2):
        toys.pod(shared)
    toys.prepared(shared)
    _pod(toys, shared, "fuse")
    assert "resourceClaimTemplateName" in toys.refused(shared)


def test_the_example_plugin_sets_a_variable_with_the_allocated_devices(bench: DraBench, tmp_path: Path) -> None:
    offered = tmp_path / "devices.json"
    offered.write_text(json.dumps({"allocatable": {"toys/a": 1, "toys/b": 1}}))
    bench.environ["LARDER_EXAMPLE_DEVICES"] = str(offered)
    bench.allow = json.dumps({"env": ["LARDER_EXAMPLE_DEVICES"]})
    claim = _claimed(bench, "b")
    bench.prepared(claim)
    (edits,) = bench.edits(claim)
    assert "LARDER_EXAMPLE_DEVICES=toys/b" in edits["env"]


def test_a_plugin_that_raises_or_returns_an_invalid_answer_is_named_and_the_others_continue(toys: DraBench) -> None:
    toys.allow = json.dumps(ALLOW)
    broken = _claimed(toys, "broken")
    assert "device plugin toys: allocate: RuntimeError: the toy is broken" in toys.refused(broken)
    assert "device plugin toys: allocate: " in toys.refused(_claim(toys, "odd"))
    toys.prepared(_claim(toys, "fuse"))
    toys.kubelet.unprepare(broken)


def test_a_hanging_plugin_is_named_and_does_not_delay_pods_without_its_devices(toys: DraBench) -> None:
    toys.allow = json.dumps(ALLOW)
    stuck = _claimed(toys, "stuck")
    without = toys.claim("model == 'tiny'")
    toys.pod(without)
    with ThreadPoolExecutor() as threads:
        refusal = threads.submit(toys.refused, stuck)
        toys.prepared(without)
        assert not refusal.done()
        assert "device plugin toys: allocate: did not return within " in refusal.result()
    assert "device plugin toys: allocate: allocate has not returned yet" in toys.refused(_claim(toys, "fuse"))
    assert not toys.cdi_path(stuck).exists()
    assert toys.kubelet.unprepare(stuck)[stuck["metadata"]["uid"]].error == ""


def test_only_the_container_with_the_extended_resource_gets_its_devices(toys: DraBench) -> None:
    """Pitfall 9: in the short form, the status of the pod says which container uses which request of the claim."""
    toys.allow = json.dumps(ALLOW)
    entry = toys.hold("tiny")
    toys.want(entry)
    toys.start_registered()
    toys.wait_devices(entry)
    resource = f"model.larder.dev/{toys.node}"
    own = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].cached"
    spec = {"selectors": [{"cel": {"expression": own}}], "extendedResourceName": resource}
    toys.api.ensure(CLASSES, {"metadata": {"name": toys.node}, "spec": spec})
    info = {
        "nodename": toys.node,
        "runningcontainer": {name: {"allocatefrom": {"toy": f"toys/{name}"}} for name in ("fuse", "full")},
    }
    containers: list[Json] = [
        {"name": "plain", "image": "i"},
        {"name": "fuse", "image": "i", "resources": {"limits": {resource: "1"}}},
        {"name": "full", "image": "i", "resources": {"limits": {resource: "1"}}},
    ]
    pod = toys.pod(annotations={"KubeDevice/DeviceInfo": json.dumps(info)}, containers=containers)
    status = pod["status"]["extendedResourceClaimStatus"]
    path = f"{RESOURCES}/namespaces/{toys.namespace}/resourceclaims/{status['resourceClaimName']}"
    claim = toys.api.get(path)
    devices = toys.kubelet.prepare(claim)[claim["metadata"]["uid"]].devices
    edits = dict(zip((each.request_names[0] for each in devices), toys.edits(claim), strict=True))
    used = {each["containerName"]: edits[each["requestName"]] for each in status["requestMappings"]}
    assert {name: each["deviceNodes"] for name, each in used.items()} == {
        "fuse": [{"path": "/dev/fuse"}], "full": [{"path": "/dev/full"}],
    }  # fmt: skip


def test_by_default_no_plugin_is_used(toys: DraBench) -> None:
    claim = _claimed(toys, "fuse")
    toys.prepared(claim)
    assert "deviceNodes" not in toys.edits(claim)[0]


def test_devices_allocated_on_another_node_are_not_added(toys: DraBench) -> None:
    toys.allow = json.dumps(ALLOW)
    claim = _claimed(toys, "fuse", node="elsewhere")
    toys.prepared(claim)
    assert "deviceNodes" not in toys.edits(claim)[0]
