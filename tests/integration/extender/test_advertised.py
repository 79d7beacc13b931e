"""End to end: an agent advertises devices, kube-scheduler asks the extender, and the pod gets a device."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.larder.site import Site
from rig.pods import plain_pod
from rig.ports import free_port
from rig.processes import Process, Program
from shared.devices.annotation import ANNOTATION
from tests.builders.devices import CARD, card

AddNode = Callable[..., str]
_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The file of the agent's example devices."""
    return tmp_path / "devices.json"


@pytest.fixture
def node(site: Site, add_node: AddNode, example: Path, tmp_path: Path) -> Iterator[str]:
    """A node whose agent advertises the devices of the file and downloads nothing."""
    name = add_node({})
    offer(example)
    argv = [sys.executable, "-m", "agent", "--node-name", name, "--root", str(tmp_path / "root")]
    argv += ["--kubeconfig", str(site.cluster.plane.kubeconfig), "--api-url", "https://127.0.0.1:9"]
    argv += ["--listen", f"127.0.0.1:{free_port()}", "--floor", "0"]
    argv += ["--devices", "true", "--device-seconds", "0.5", "--example-devices", str(example)]
    agent = Process(Program("larder-agent", argv, {}), tmp_path / "agent.log")
    yield name
    agent.kill()


def offer(example: Path, *places: str) -> None:
    """Write which cards the node has, in one step."""
    new = example.with_suffix(".new")
    new.write_text(json.dumps({"allocatable": {card(place): 1 for place in places}}))
    new.rename(example)


def asking(site: Site) -> str:
    """Create a pod that asks for a card, and return its name."""
    asks = {"runningcontainer": {"main": {"requests": {CARD: 1}}}}
    pod = plain_pod(site.name("pod"), {ANNOTATION: json.dumps(asks)})
    return str(site.api.create(_PODS, pod)["metadata"]["name"])


def place_of(site: Site, name: str) -> str:
    info = json.loads(site.api.get(f"{_PODS}/{name}")["metadata"]["annotations"][ANNOTATION])
    (place,) = info["runningcontainer"]["main"]["allocatefrom"].values()
    return str(place)


def test_a_waiting_pod_is_bound_as_soon_as_an_agent_advertises_its_device(site: Site, node: str, example: Path) -> None:
    first = asking(site)

    def refusal() -> str:
        conditions = site.api.get(f"{_PODS}/{first}")["status"].get("conditions", [])
        return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

    site.until(lambda: "capacity 0" in refusal(), "the pod to wait")
    offer(example, "x")
    site.until(lambda: site.pod_node(first) == node, "the pod to be bound")
    assert place_of(site, first) == card("x")
    second = asking(site)
    offer(example, "x", "y")
    site.until(lambda: site.pod_node(second) == node, "the second pod to be bound")
    assert place_of(site, second) == card("y")
