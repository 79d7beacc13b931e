"""Who may write allocations, and which pods the controller may bind; tried on a real API server."""

import json
from collections.abc import Iterator

import pytest

from rig.api import MERGE, Api
from rig.errors import CallRefused
from rig.larder.programs import CONTROLLER, NAMESPACE
from rig.larder.site import Site
from rig.pods import plain_pod
from shared.devices.annotation import ANNOTATION, MAX_REQUEST_BYTES
from shared.devices.scheduler import SCHEDULER_NAME
from shared.json_object import Json
from tests.builders.devices import CARD

_PODS = "/api/v1/namespaces/default/pods"
_ASKS = json.dumps({"runningcontainer": {"main": {"requests": {CARD: 1}, "scorer": {CARD: 1}}}})
_GATE = [{"name": "test.example.org/held"}]


@pytest.fixture(scope="module")
def controller(site: Site) -> Iterator[Api]:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{CONTROLLER}/token"
    client = site.cluster.plane.api_with_token(str(site.api.create(path, {"spec": {}})["status"]["token"]))
    yield client
    client.close()


@pytest.fixture
def pod(site: Site) -> Iterator[str]:
    """A pod that no scheduler takes."""
    body = plain_pod(site.name("pod"), {ANNOTATION: _ASKS})
    body["spec"]["schedulingGates"] = _GATE
    name = str(site.api.create(_PODS, body)["metadata"]["name"])
    yield name
    site.delete_pod(name)


def refusal(client: Api, method: str, path: str, body: Json) -> str:
    """Return the reason for the refusal of a request, or an empty string; nothing is stored."""
    try:
        client.call(method, f"{path}?dryRun=All", body, MERGE if method == "PATCH" else "application/json")
    except CallRefused as refused:
        return str(refused)
    return ""


def annotated(text: str | None) -> Json:
    return {"metadata": {"annotations": {ANNOTATION: text}}}


_BY_THE_SCHEDULER = "only larder-scheduler may set"
_EVASIONS = {
    "nodename": ('{"nodename": "n"}', _BY_THE_SCHEDULER),
    "allocatefrom": ('{"runningcontainer":{"main":{"allocatefrom":{"a":"b"}}}}', _BY_THE_SCHEDULER),
    "devrequests": ('{"runningcontainer":{"main":{"devrequests":{"a":1}}}}', _BY_THE_SCHEDULER),
    "init": ('{"initcontainer":{"main":{"allocatefrom" :{"a":"b"}}}}', _BY_THE_SCHEDULER),
    "case": ('{"runningcontainer":{"main":{"AllocateFrom":{"a":"b"}}}}', _BY_THE_SCHEDULER),
    "escape": ('{"\\u006eodename": "n"}', "not contain a backslash"),
    "escaped quote": ('{"a\\"": 1, "nodename": "n"}', "not contain a backslash"),
    "white space": ('{\n\t"nodename"\n:"n"}', _BY_THE_SCHEDULER),
    "key twice": ('{"runningcontainer":{},"nodename":"","nodename":"n"}', _BY_THE_SCHEDULER),
    "deep": ('{"x":{"y":[{"nodename":"n"}]}}', _BY_THE_SCHEDULER),
    "too long": (json.dumps({"x": "y" * MAX_REQUEST_BYTES}), "may have 32 KiB"),
    "not JSON": ('"nodename"', _BY_THE_SCHEDULER),
}


@pytest.mark.parametrize(("text", "why"), _EVASIONS.values(), ids=_EVASIONS)
def test_no_user_can_write_an_allocation(site: Site, pod: str, text: str, why: str) -> None:
    """Neither at creation nor through metadata, status or a binding."""
    created = plain_pod(site.name("pod"), {ANNOTATION: text})
    answer = refusal(site.api, "POST", _PODS, created)
    assert why in answer or f"annotation {ANNOTATION}: " in answer  # the webhook may have been first
    for part in ("", "/status"):
        assert why in refusal(site.api, "PATCH", f"{_PODS}/{pod}{part}", annotated(text))
    binding = annotated(text) | {"target": {"kind": "Node", "name": "n"}}
    binding["metadata"]["name"] = pod
    assert why in refusal(site.api, "POST", f"{_PODS}/{pod}/binding", binding)
    assert why in refusal(site.api, "POST", "/api/v1/namespaces/default/bindings", binding)


def test_users_may_write_requests_and_scorers_until_the_pod_has_devices(site: Site, pod: str) -> None:
    assert refusal(site.api, "PATCH", f"{_PODS}/{pod}", annotated(_ASKS.replace("1", "2"))) == ""
    assert refusal(site.api, "PATCH", f"{_PODS}/{pod}", annotated(None)) == ""
    assert refusal(site.api, "PATCH", f"{_PODS}/{pod}", {"metadata": {"labels": {"a": "b"}}}) == ""


def test_the_annotation_of_a_pod_with_devices_cannot_be_changed(site: Site, controller: Api) -> None:
    site.cluster.add_node(node := site.name("node"), agent=False)
    text = json.dumps({"allocatable": {CARD: 1}})
    site.api.patch(f"/api/v1/nodes/{node}", annotated(text))
    name = str(site.api.create(_PODS, plain_pod(site.name("pod"), {ANNOTATION: _ASKS}))["metadata"]["name"])
    site.until(lambda: bool(site.pod_node(name)), "the pod to be bound")
    for part in ("", "/status"):
        for change in (annotated(None), annotated(_ASKS), annotated("{}")):
            assert "can no longer be changed" in refusal(site.api, "PATCH", f"{_PODS}/{name}{part}", change)
    assert refusal(site.api, "PATCH", f"{_PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}) == ""
    assert refusal(site.api, "PATCH", f"{_PODS}/{name}/status", {"status": {"phase": "Failed"}}) == ""
    assert "pods" in refusal(controller, "PUT", f"{_PODS}/{name}", site.api.get(f"{_PODS}/{name}"))
    site.delete_pod(name)
    site.cluster.nodes.remove(node)


def binding_of(pod: str, text: str | None = None, node: str = "n", **metadata: object) -> Json:
    annotations = {} if text is None else {"annotations": {ANNOTATION: text}}
    return {"metadata": {"name": pod} | annotations | metadata, "target": {"kind": "Node", "name": node}}


def test_the_controller_binds_only_with_an_allocation_for_the_node(controller: Api, pod: str) -> None:
    path = f"{_PODS}/{pod}/binding"
    fits = '{"nodename":"n","runningcontainer":{}}'
    gated = "has non-empty .spec.schedulingGates"  # what the API server itself has against it: our policies let it pass
    assert gated in refusal(controller, "POST", path, binding_of(pod, fits))
    assert gated in refusal(controller, "POST", path, binding_of(pod))
    only = "may only set the annotation"
    assert only in refusal(controller, "POST", path, binding_of(pod, fits, "other"))
    assert only in refusal(controller, "POST", path, binding_of(pod, '{"runningcontainer":{}}'))
    assert only in refusal(controller, "POST", path, binding_of(pod, annotations={"a": "b"}))
    assert only in refusal(controller, "POST", path, binding_of(pod, labels={"a": "b"}))


@pytest.mark.parametrize("namespace", ["kube-system", NAMESPACE, "kube-public"])
def test_the_controller_cannot_bind_pods_in_namespaces_that_are_not_enabled(controller: Api, namespace: str) -> None:
    for path in (f"/api/v1/namespaces/{namespace}/pods/any/binding", f"/api/v1/namespaces/{namespace}/bindings"):
        assert any(why in refusal(controller, "POST", path, binding_of("any")) for why in ("not enabled", "403"))


def test_the_controller_may_write_only_its_own_lease_and_those_of_devices(controller: Api) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert refusal(controller, "POST", path, {"metadata": {"name": "larder-devices-n"}, "spec": {}}) == ""
    for name in ("larder-scheduler", "other"):
        answer = refusal(controller, "POST", path, {"metadata": {"name": name}, "spec": {}})
        assert "the Leases of the nodes' devices" in answer
    elsewhere = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert "403" in refusal(controller, "POST", elsewhere, {"metadata": {"name": "larder-devices-n"}, "spec": {}})


def test_a_pod_that_names_our_scheduler_is_marked_for_the_extender(site: Site) -> None:
    body = plain_pod(site.name("pod"))
    body["spec"] |= {"schedulerName": SCHEDULER_NAME, "schedulingGates": _GATE}
    made = site.api.create(f"{_PODS}?dryRun=All", body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"larder.dev/devices": "1"}
