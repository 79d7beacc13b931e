"""The example of device plugins is installed like any distribution: advertised, scheduled and allocated."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.distributions import install_example

ACT = """
import json, sys

from agent.devices.loading import installed_plugins, start_plugins
from controller.devices.entry_points import load_schedulers
from controller.devices.schedule import schedule
from shared.devices.annotation import encode_node_info, parse_node_info, pod_info_from, pod_info_json

loaded, schedulers = start_plugins(installed_plugins()), load_schedulers()
failures = {**loaded.failures, **schedulers.failures}
if failures:
    print(json.dumps({"failures": failures}))
    sys.exit()
(plugin,) = loaded.plugins
offer = plugin.node_info("n1")
pod = pod_info_from(json.loads(sys.argv[1]))
decision = schedule([parse_node_info(encode_node_info(offer))], pod, schedulers.plugins)
allocated = {
    name: plugin.allocate(decision.pod, container) for name, container in decision.pod.running_containers.items()
}
print(json.dumps({
    "allocatable": offer.allocatable,
    "kube_cap": offer.kube_cap,
    "node": decision.node,
    "reasons": [str(reason) for reasons in decision.reasons.values() for reason in reasons],
    "pod": pod_info_json(decision.pod),
    "mounts": {name: found.mounts for name, found in allocated.items()},
    "devices": {name: found.devices for name, found in allocated.items()},
    "envs": {name: dict(found.envs) for name, found in allocated.items()},
}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed without an index."""
    folder = tmp_path_factory.mktemp("site")
    install_example("device-plugins", folder)
    return folder


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """The directory /dev of a node with three ports."""
    (tmp_path / "dev").mkdir()
    for name in ("ttyUSB0", "ttyUSB1", "ttyACM0", "tty1", "null"):
        (tmp_path / "dev" / name).touch()
    return tmp_path / "dev"


def run(site: Path, dev: Path, **requests: int) -> Any:
    """Schedule a pod whose containers each request a number of ports."""
    containers = {name: {"requests": {"larder.dev/serial-port": count}} for name, count in requests.items()}
    environ = {**os.environ, "PYTHONPATH": str(site), "SERIAL_DEV": str(dev)}
    command = [sys.executable, "-c", ACT, json.dumps({"podname": "p", "runningcontainer": containers})]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)  # noqa: S603 - our own text
    return json.loads(done.stdout)


def test_ports_are_advertised_chosen_and_allocated(site: Path, dev: Path) -> None:
    found = run(site, dev, one=1, two=2)
    assert found["allocatable"] == {
        f"resource/group/serial/{name}/port": 1 for name in ("ttyACM0", "ttyUSB0", "ttyUSB1")
    }
    assert found["kube_cap"] == {"larder.dev/serial-port": 3}
    assert found["node"] == "n1"
    given = {
        name: set(container["allocatefrom"].values()) for name, container in found["pod"]["runningcontainer"].items()
    }
    assert [len(given["one"]), len(given["two"]), len(given["one"] | given["two"])] == [1, 2, 3]
    for name, chosen in given.items():
        paths = sorted(f"/dev/{resource.split('/')[3]}" for resource in chosen)
        assert found["devices"][name] == paths
        assert found["envs"][name] == {"SERIAL_PORTS": ",".join(paths)}
        assert found["mounts"][name] == [["/dev/serial/by-id", "/dev/serial/by-id", True]]


def test_a_pod_that_requests_no_port_gets_none(site: Path, dev: Path) -> None:
    found = run(site, dev, one=0)
    assert (found["node"], found["devices"], found["mounts"]) == ("n1", {"one": []}, {"one": []})


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"one": 4}, "container one: larder.dev/serial-port: requested 4, used 0, capacity 3"),
        ({"one": 2, "two": 2}, "container two: resource/group/serial/"),
    ],
)
def test_too_many_ports_are_refused_with_the_reason(
    requests: dict[str, int], words: str, site: Path, dev: Path
) -> None:
    found = run(site, dev, **requests)
    assert found["node"] is None
    assert any(words in reason for reason in found["reasons"])


def test_a_node_without_the_directory_has_no_ports(site: Path, tmp_path: Path) -> None:
    found = run(site, tmp_path / "none", one=1)
    assert "start: FileNotFoundError" in found["failures"]["serial"]
