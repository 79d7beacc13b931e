"""Devices on a real node: schedulers and kubelet use what the agent advertises."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.devices.decide import RECORD
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import NAMESPACE, Installation
from shared.devices.annotation import ANNOTATION
from shared.names import short_id

CONTROLLER = {"drainSeconds": 2}
DEVICES = {"enabled": True, "intervalSeconds": 5, "exampleConfigMap": "example-devices"}
GPU, RESERVED = "larder.dev/example-gpu", "larder.dev/partly-reserved"
CARDS = {f"resource/group/gpugrp0/0/gpu/{n}/cards": 1 for n in range(2)}
EXAMPLE = {"allocatable": CARDS, "kubecap": {GPU: 2, RESERVED: 4}, "kubealloc": {RESERVED: 3}}
_SLOW_S = 180.0  # kubelet reads a ConfigMap again after a minute or so


@pytest.fixture(scope="module")
def advertising(site: Installation) -> Iterator[Installation]:
    """The installation with devices switched on; advertised devices are withdrawn afterwards."""
    body = {"metadata": {"name": "example-devices"}, "data": {"devices.json": json.dumps(EXAMPLE)}}
    site.api.ensure(f"/api/v1/namespaces/{NAMESPACE}/configmaps", body)
    site.install(controller=CONTROLLER, devices=DEVICES)
    yield site
    site.install(controller=CONTROLLER, devices=DEVICES | {"withdraw": True})
    site.until(lambda: not info(site) and not extended(site), "the devices to be withdrawn", _SLOW_S)
    site.until(lambda: RECORD not in node(site)["metadata"]["annotations"], "the record of resources to go with them")
    site.install(controller=CONTROLLER)


def node(site: Installation) -> dict[str, Any]:
    found: dict[str, Any] = site.get("Node", "one")
    return found


def info(site: Installation) -> dict[str, Any]:
    """Return the device annotation of the node; empty without one."""
    found: dict[str, Any] = json.loads(node(site)["metadata"]["annotations"].get(ANNOTATION, "{}"))
    return found


def extended(site: Installation) -> dict[str, tuple[str, str]]:
    """Return capacity and allocatable amount of our extended resources in the Node's status."""
    status = node(site)["status"]
    return {
        name: (quantity, status["allocatable"].get(name, ""))
        for name, quantity in status["capacity"].items()
        if name.startswith("larder.dev/")
    }


def sleeper(site: Installation, count: int) -> str:
    """Create a pod with example devices, and return its name."""
    name = site.name("card")
    container = {
        "name": "main",
        "image": SANDBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {GPU: str(count)}},
    }
    body = {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    site.run("/api/v1/namespaces/{}/pods", body)
    return name


def test_an_unmodified_scheduler_counts_what_the_agent_advertises(advertising: Installation) -> None:
    site = advertising
    site.until(lambda: GPU in extended(site), "the extended resource", _SLOW_S)
    assert CARDS.items() <= info(site)["allocatable"].items()
    first = sleeper(site, 2)
    site.running(first)
    second = sleeper(site, 1)

    def refusal() -> str:
        (pod,) = site.pods(f"app={second}", "default")
        conditions = pod["status"].get("conditions", [])
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    site.until(lambda: f"Insufficient {GPU}" in refusal(), "the second pod to be refused")
    site.api.delete(f"/api/v1/namespaces/default/pods/{first}?gracePeriodSeconds=0")
    site.running(second)


def test_the_advertised_capacity_equals_the_allocatable_amount(advertising: Installation) -> None:
    advertising.until(lambda: extended(advertising).get(RESERVED) == ("3", "3"), "kubelet to be heeded", _SLOW_S)


def test_devices_survive_a_restart_of_kubelet(advertising: Installation) -> None:
    site = advertising
    site.until(lambda: extended(site).get(GPU) == ("2", "2"), "the extended resource", _SLOW_S)
    site.cluster.restart_kubelet("one")
    site.until(lambda: extended(site).get(GPU) == ("2", "2"), "the extended resource", _SLOW_S)
    site.running(sleeper(site, 1))


def test_a_ready_model_is_advertised_as_a_device(advertising: Installation) -> None:
    site = advertising
    name = site.base_model()
    site.wait_ready("ClusterBaseModel", name)
    leaf = f"resource/group/model/{short_id(name)}/ready"
    site.until(lambda: leaf in info(site).get("allocatable", {}), "the model in the annotation", _SLOW_S)
    site.delete_unused("ClusterBaseModel", name)
    site.until(lambda: leaf not in info(site).get("allocatable", {}), "the model to go", _SLOW_S)
