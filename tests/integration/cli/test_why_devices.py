"""`larder why` of a pod that claims or requests devices, on a real API server and scheduler."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.api import Api
from rig.processes import wait_until
from shared.api.core import NODES
from shared.api.meta import Condition
from shared.api.model_node import PATH, Entry, EntryStatus, ModelNodeSpec, ModelNodeStatus
from shared.devices.annotation import ANNOTATION
from shared.devices.scheduler import DEVICES_RESOURCE, NAMESPACE_LABEL, SCHEDULER_NAME
from shared.dra import (
    DEVICE_CLASSES,
    DRIVER,
    FETCH_CLASS,
    PRIVATE_CLASS,
    RESOURCES,
    SHARED_CLASS,
    SLICES,
    device_name,
)
from shared.json_object import Json
from tests.builders.devices import CARD, card
from tests.integration.cli.conftest import Cluster

SOON_S = 60.0
MODEL, REVISION = "qwen", "r1"


@dataclass(frozen=True)
class Claims:
    """A namespace with pods that claim models, and nodes of the test's own."""

    api: Api
    kubeconfig: Path
    namespace: str

    def why(self, subject: str, exits: int = 0) -> str:
        """Run the command as a user would, and return what it printed."""
        options = [subject, f"--namespace={self.namespace}", f"--kubeconfig={self.kubeconfig}"]
        argv = [sys.executable, "-m", "shared.cli", "why", *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        assert (done.returncode, done.stderr) == (exits, "")
        return done.stdout

    def node(self, name: str, phase: str, *conditions: Condition) -> str:
        """Create a node whose agent reports this phase of the model."""
        name = f"{name}-{self.namespace}"
        uid = self.api.create("/api/v1/nodes", {"metadata": {"name": name}})["metadata"]["uid"]
        spec = ModelNodeSpec(node_uid=uid, entries=[Entry(id=MODEL, revision=REVISION)])
        kind = {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": name}}
        self.api.create(PATH, kind | {"spec": msgspec.to_builtins(spec)})
        reported = EntryStatus(id=MODEL, revision=REVISION, phase=phase, observed="Present")
        status = ModelNodeStatus(node_uid=uid, entries=[reported], conditions=list(conditions))
        self.api.patch(f"{PATH}/{name}/status", {"status": msgspec.to_builtins(status)})
        return name

    def publish(self, node: str, *taints: str) -> None:
        """Publish the model on a node, as its driver does."""
        device = {
            "name": device_name(MODEL, REVISION),
            "attributes": {"model": {"string": MODEL}},
            "taints": [{"key": key, "effect": "NoSchedule"} for key in taints],
        }
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
        self.api.create(SLICES, {"metadata": {"name": node}, "spec": spec})

    def classes(self) -> None:
        """Create the classes of the chart."""
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        for name in (SHARED_CLASS, PRIVATE_CLASS, FETCH_CLASS):
            self.api.ensure(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": [selector]}})

    def pod(self, model: str = MODEL, class_name: str = SHARED_CLASS) -> str:
        """Create a pod that claims a model and finds no node, and wait until its claim is there."""
        name = f"p-{uuid.uuid4().hex[:8]}"
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}
        exactly = {"deviceClassName": class_name, "selectors": [selector]}
        template = {"spec": {"devices": {"requests": [{"name": "model", "exactly": exactly}]}}}
        path = f"{RESOURCES}/namespaces/{self.namespace}/resourceclaimtemplates"
        self.api.create(path, {"metadata": {"name": name}, "spec": template})
        spec = {
            "nodeSelector": {"no": "node"},
            "resourceClaims": [{"name": "m", "resourceClaimTemplateName": name}],
            "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "m"}]}}],
        }
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.api.create(pods, {"metadata": {"name": name}, "spec": spec})
        wait_until(
            lambda: bool(self.api.get(f"{pods}/{name}")["status"].get("resourceClaimStatuses")), SOON_S, "the claim"
        )
        return f"pod/{name}"

    def advertise(self, name: str, text: str) -> str:
        """Create a node with this annotation of devices."""
        name = f"{name}-{self.namespace}"
        self.api.create(NODES, {"metadata": {"name": name, "annotations": {ANNOTATION: text}}})
        return name

    def requesting(self, main: Json, **spec: Any) -> str:
        """Create a pod as admission would return it, with this request in its annotation; no scheduler places it."""
        name = f"p-{uuid.uuid4().hex[:8]}"
        text = json.dumps({"nodename": spec.get("nodeName", ""), "runningcontainer": {"main": main}})
        marked = {"limits": {DEVICES_RESOURCE: "1"}}
        containers = [{"name": "main", "image": "i", "resources": marked}]
        self.api.create(
            f"/api/v1/namespaces/{self.namespace}/pods",
            {
                "metadata": {"name": name, "annotations": {ANNOTATION: text}},
                "spec": {"schedulerName": SCHEDULER_NAME, "containers": containers} | spec,
            },
        )
        return f"pod/{name}"

    def open(self) -> None:
        """Let larder-scheduler place the pods of the namespace, as far as labels are concerned."""
        self.api.patch(f"/api/v1/namespaces/{self.namespace}", {"metadata": {"labels": {NAMESPACE_LABEL: "true"}}})


@pytest.fixture
def claims(cluster: Cluster) -> Iterator[Claims]:
    namespace = f"devices-{uuid.uuid4().hex[:8]}"
    api = cluster.plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    wait_until(
        lambda: api.answers(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), SOON_S, "the account of pods"
    )
    yield Claims(api, cluster.plane.kubeconfig, namespace)
    for path in (SLICES, PATH, "/api/v1/nodes", DEVICE_CLASSES):
        for body in api.get(path)["items"]:
            api.delete(f"{path}/{body['metadata']['name']}")
    api.delete(f"/api/v1/namespaces/{namespace}")


def test_nodes_that_offer_fetch_or_withdraw_the_model_are_named(claims: Claims) -> None:
    claims.classes()
    has, goes, fetches = (
        claims.node("has", "Ready"),
        claims.node("goes", "Ready"),
        claims.node("fetches", "Downloading"),
    )
    silent = claims.node("silent", "Ready")
    claims.publish(has)
    claims.publish(goes, "larder.dev/leaving")
    shown = claims.why(claims.pod())
    assert f"Nodes: {MODEL} is offered by {has}\n" in shown
    assert f"~ {MODEL} on node/{goes}: Tainted: the device has the taint larder.dev/leaving" in shown
    assert f"~ {MODEL} on node/{fetches}: Fetching: Downloading" in shown
    assert f"! {MODEL} on node/{silent}: NotPublished" in shown
    assert "AsksForNoModel" not in shown


def test_the_short_form_is_explained_like_a_claim(claims: Claims) -> None:
    claims.classes()
    has = claims.node("has", "Ready")
    claims.publish(has)
    resource, name = f"model.larder.dev/{claims.namespace}", claims.namespace
    selector = {
        "cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "{MODEL}"'}
    }
    spec = {"extendedResourceName": resource, "selectors": [selector]}
    claims.api.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": spec})
    main = {"name": "main", "image": "i", "resources": {"limits": {resource: "1"}}}
    pod = {"metadata": {"name": name}, "spec": {"nodeSelector": {"no": "node"}, "containers": [main]}}
    claims.api.create(f"/api/v1/namespaces/{claims.namespace}/pods", pod)
    shown = claims.why(f"pod/{name}")
    assert f". claim/{resource}: Nodes: {MODEL} is offered by {has}\n" in shown
    assert "AsksForNoModel" not in shown


def test_missing_device_classes_and_drivers_are_reported_with_a_remedy(claims: Claims) -> None:
    pod = claims.pod()
    shown = claims.why(pod)
    assert f"NoDeviceClass: there is no DeviceClass {SHARED_CLASS}" in shown
    assert "NoDriver: no node publishes models as devices" in shown
    assert "fix: set dra.enabled in the chart" in shown
    claims.classes()
    shown = claims.why(pod)
    assert "NoDeviceClass" not in shown
    assert f"NoNodes: no node has model {MODEL} or is fetching it" in shown


def test_a_claim_for_a_private_model_is_explained_by_its_namespace_and_class(claims: Claims) -> None:
    claims.classes()
    claims.publish(claims.node("has", "Ready"))
    foreign = claims.why(claims.pod("somebody_private", PRIVATE_CLASS))
    assert "NamespaceNotAllowed: model somebody_private belongs to namespace somebody" in foreign
    shown = claims.why(claims.pod(f"{claims.namespace}_own"))
    assert f"fix: claim it through class {PRIVATE_CLASS}" in shown


def test_a_node_that_cannot_advertise_its_devices_is_reported(claims: Claims) -> None:
    broken = Condition(
        type="DevicesAdvertised", status="False", reason="PluginFailed", message="serial: no such device",
        last_transition_time="2026-06-01T00:00:00Z",
    )  # fmt: skip
    node = claims.node("broken", "Ready", broken)
    assert f"! node/{node}: NotDevicesAdvertised: PluginFailed: serial: no such device" in claims.why(f"node/{node}")


def test_the_missing_devices_of_all_nodes_are_shown_for_a_pod_that_fits_none(claims: Claims) -> None:
    claims.open()
    node = claims.advertise("one", json.dumps({"allocatable": {card("a"): 1}}))
    broken = claims.advertise("broken", "{")
    pod = claims.requesting({"requests": {CARD: 2}})
    shown = claims.why(pod)
    assert f"(1 of 1 checked): {node}: container main: {CARD}: requested 2, used 0, capacity 1\n" in shown
    assert (
        f"! nodes: InvalidDeviceInfo: the devices of {broken} do not count: annotation {ANNOTATION} of the node"
        in shown
    )
    assert "! scheduler: NoScheduler: there is no Deployment larder-scheduler in namespace larder-system" in shown
    assert "NamespaceNotOpened" not in shown
    assert "AsksForNoModel" not in shown


def test_the_namespace_label_is_named_for_a_pod_where_device_scheduling_is_not_enabled(claims: Claims) -> None:
    node = claims.advertise("one", json.dumps({"allocatable": {card("a"): 1}}))
    pod = claims.requesting({"requests": {CARD: 1}})
    shown = claims.why(pod)
    assert shown.startswith(f"pod {claims.namespace}/{pod.removeprefix('pod/')}: namespace/{claims.namespace}: Namesp")
    assert f"`kubectl label --overwrite namespace {claims.namespace} larder.dev/device-scheduling=true`\n" in shown
    assert f". nodes: Fits: could hold the pod if no other pod used their devices: {node}\n" in shown


def test_the_absence_of_advertised_devices_is_reported_for_a_waiting_pod(claims: Claims) -> None:
    assert "! nodes: NoDevices: no node advertises devices\n" in claims.why(claims.requesting({"requests": {CARD: 1}}))


def test_the_allocated_devices_of_a_pod_are_shown(claims: Claims) -> None:
    node = claims.advertise("one", json.dumps({"allocatable": {card("a"): 1}}))
    got = {"requests": {CARD: 1}, "allocatefrom": {CARD: card("a")}}
    shown = claims.why(claims.requesting(got, nodeName=node))
    assert f". devices: Allocated: main ({card('a')}) on node/{node}\n" in shown
    assert "! devices" not in shown


def test_a_pod_of_another_scheduler_is_reported_to_get_no_devices(claims: Claims) -> None:
    pod = claims.requesting({"requests": {CARD: 1}}, schedulerName="default-scheduler", nodeSelector={"no": "node"})
    assert "! devices: OtherScheduler: admission did not send it to larder-scheduler" in claims.why(pod)
