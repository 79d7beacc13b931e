"""Why a pod does not get the models that it claims as devices."""

from typing import Any

import msgspec
import pytest

from controller.cli.why.device_kinds import DeviceSurroundings, ObservedResourceClaim, PodClaim, PublishedDevices
from controller.cli.why.findings import Diagnosis
from controller.cli.why.kinds import ObservedPod, ObservedPodStatus
from controller.cli.why.nodes import why_node
from controller.cli.why.pods import why_pod
from controller.cli.why.resource_claims import resource_claim_findings
from controller.cli.why.view import PodSurroundings
from shared.dra import DRIVER
from tests.builders.cluster import meta
from tests.builders.why import node_with_model, reported, seen, with_entry, with_status

CLASSES = frozenset((DRIVER, f"private-{DRIVER}", f"fetch-{DRIVER}"))
POD = ObservedPod(metadata=meta("p", namespace="team"), status=ObservedPodStatus(phase="Pending"))
ATTRIBUTE = f'device.attributes["{DRIVER}"]'


def request(model: str, class_name: str = DRIVER) -> dict[str, Any]:
    selector = {"cel": {"expression": f'{ATTRIBUTE}.model == "{model}"'}}
    return {"name": "model", "exactly": {"deviceClassName": class_name, "selectors": [selector]}}


def claim(*requests: dict[str, Any], node: str = "") -> ObservedResourceClaim:
    held = {"allocation": {"devices": {"results": [{"driver": DRIVER, "pool": node, "device": "m-1"}]}}} if node else {}
    body = {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": {"requests": list(requests)}}}
    return msgspec.convert(body | {"status": held}, ObservedResourceClaim)


def published(model: str, node: str, *taints: str) -> PublishedDevices:
    attributes = {"model": {"string": model}, "sizeBytes": {"int": 5}, "cached": {"bool": True}}
    device = {"name": "m-1", "attributes": attributes, "taints": [{"key": key} for key in taints]}
    body = {"metadata": {"name": node}, "spec": {"nodeName": node, "devices": [device]}}
    return msgspec.convert(body, PublishedDevices)


def around(found: ObservedResourceClaim | None, *slices: PublishedDevices, **fields: Any) -> DeviceSurroundings:
    claims = (PodClaim("m", "t", "c" if found else "", found),)
    return DeviceSurroundings(**({"claims": claims, "slices": slices, "classes": CLASSES} | fields))


def answers(devices: DeviceSurroundings, cluster: Any = None) -> dict[str, str]:
    """The findings by reason, each with its subject and its message."""
    return {f.reason: f"{f.about}: {f.message}" for f in resource_claim_findings(POD, devices, cluster or seen())}


def test_nodes_that_offer_the_model_are_named() -> None:
    found = answers(around(claim(request("m")), published("m", "a"), published("other", "b")))
    assert found["Nodes"] == "claim/c: m is offered by a"
    assert found["NotPublished"].startswith("m on node/b: the node has the model")


def test_a_tainted_device_is_reported_as_unavailable_for_new_claims() -> None:
    found = answers(around(claim(request("m")), published("m", "a", "larder.dev/leaving"), published("m", "b")))
    assert found["Tainted"] == "m on node/a: the device has the taint larder.dev/leaving, so no new claim gets it"
    assert found["Nodes"] == "claim/c: m is offered by b"


def test_nodes_that_fetch_the_model_are_named() -> None:
    cluster = seen(model_nodes={"a": node_with_model("a", "Downloading"), "b": node_with_model("b", "Waiting")})
    found = list(resource_claim_findings(POD, around(claim(request("m")), published("x", "a")), cluster))
    assert [(f.about, f.reason, f.message.split(";")[0]) for f in found] == [
        ("m on node/a", "Fetching", "Downloading"), ("m on node/b", "Fetching", "Waiting"),
    ]  # fmt: skip


def test_a_model_being_removed_from_all_nodes_is_reported_as_on_no_node() -> None:
    leaving = {name: with_entry(node_with_model(name), state="Draining") for name in ("a", "b")}
    found = answers(around(claim(request("m")), published("x", "a")), seen(model_nodes=leaving))
    assert found["NoNodes"] == "claim/c: no node has model m or is fetching it"


@pytest.mark.parametrize(
    ("model", "class_name", "reason"),
    [
        ("other_m", f"private-{DRIVER}", "NamespaceNotAllowed"),
        ("team_m", DRIVER, "OtherClass"),
        ("m", f"private-{DRIVER}", "OtherClass"),
        ("team_m", f"private-{DRIVER}", "NoNodes"),
    ],
)
def test_a_private_model_needs_its_namespace_and_the_private_class(model: str, class_name: str, reason: str) -> None:
    assert answers(around(claim(request(model, class_name)), published("x", "a"))).keys() == {reason}


def test_a_missing_driver_or_device_class_is_reported() -> None:
    cluster = seen(model_nodes={})
    assert answers(around(claim(request("m"))), cluster).keys() == {"NoNodes", "NoDriver"}
    assert answers(around(claim(request("m")), classes=frozenset()), cluster).keys() == {"NoDeviceClass", "NoDriver"}


def test_without_the_dra_api_only_that_is_reported() -> None:
    assert answers(around(None, served=False)).keys() == {"DevicesNotServed"}


def test_objects_that_may_not_be_read_are_not_taken_for_missing() -> None:
    found = answers(around(claim(request("m")), classes=None, hidden=("resourceslices",)))
    assert found.keys() == {"NotShown"}
    assert answers(around(None, hidden=("resourceclaims",))).keys() == {"NotShown"}


def test_a_missing_claim_is_reported_differently_for_templates_and_named_claims() -> None:
    assert answers(around(None)).keys() == {"ClaimNotCreated"}
    assert answers(around(None, claims=(PodClaim("m", claim_name="c"),))).keys() == {"ClaimNotFound"}


def test_for_an_allocated_claim_only_its_device_and_node_are_reported() -> None:
    assert answers(around(claim(request("m"), node="a"))) == {"Allocated": "claim/c: holds m-1 on node/a"}


def test_a_selector_that_names_no_single_model_is_quoted() -> None:
    expression = f"{ATTRIBUTE}.model == 'm' || {ATTRIBUTE}.model == 'n'"
    choice = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}]}
    found = answers(around(claim({"name": "model", "exactly": choice}), published("m", "a")))
    assert found == {"AnyModel": f"claim/c: requests a device of class {DRIVER}: {expression}"}


def test_the_fallback_of_a_request_is_not_taken_for_a_model() -> None:
    alternatives = [request("m")["exactly"] | {"name": "cached"}, {"name": "f", "deviceClassName": f"fetch-{DRIVER}"}]
    found = answers(around(claim({"name": "model", "firstAvailable": alternatives}), published("m", "a")))
    assert found.keys() == {"Nodes", "NotPublished"}


def test_claims_of_other_drivers_are_not_ours() -> None:
    body = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.org"}}
    assert answers(around(claim(body))) == {}


def test_a_pod_with_a_claim_requests_a_model() -> None:
    of = PodSurroundings(devices=around(claim(request("m")), published("m", "a"), published("m", "b")))
    asked, other = why_pod(POD, seen(), of), why_pod(POD, seen())
    assert "AsksForNoModel" not in {f.reason for f in asked.findings}
    assert "AsksForNoModel" in {f.reason for f in other.findings}


@pytest.mark.parametrize(
    ("status", "shown"),
    [("True", ". DevicesAdvertised"), ("False", "! NotDevicesAdvertised"), ("Unknown", "~ NotDevicesAdvertised")],
)
def test_a_node_shows_whether_its_devices_are_advertised(status: str, shown: str) -> None:
    condition = reported("PluginFailed", "models: no disk", "DevicesAdvertised", status)
    answer = why_node("a", seen(model_nodes={"a": with_status(node_with_model("a"), conditions=[condition])}))
    assert shown in _lines(answer)
    assert not any("DevicesAdvertised" in line for line in _lines(why_node("a", seen())))


def _lines(answer: Diagnosis) -> list[str]:
    return [f"{f.severity} {f.reason}" for f in answer.findings]
