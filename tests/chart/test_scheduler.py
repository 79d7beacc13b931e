"""The scheduler that the chart installs, with its roles and configuration."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controller.extender.callers import extender_key
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import LARDER, Helm
from rig.pods import plain_pod
from rig.processes import wait_until
from shared.devices.scheduler import DEVICES_RESOURCE, SCHEDULER_NAME
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, VALUES, Render
from tests.chart.everything import EVERYTHING, KEY
from tests.chart.objects import only

_ON = {"scheduler": {"enabled": True}, "admission": {"pathKeys": [KEY]}}
_ITS_OBJECTS = {
    "larder-scheduler", "larder-bindings", "larder-devices", "larder-device-leases", "larder-device-annotations",
}  # fmt: skip


def scheduler_config(rendered: list[Json]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        base64.b64decode(only(rendered, "Secret", SCHEDULER_NAME)["data"]["config.yaml"])
    )
    return found


def environment(rendered: list[Json]) -> dict[str, str]:
    (container,) = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_the_scheduler_is_off_by_default(render: Render) -> None:
    rendered = render({})
    assert not {body["metadata"]["name"] for body in rendered} & {*_ITS_OBJECTS, "larder-device-scheduling"}
    assert environment(rendered)["LARDER_SCHEDULER"] == "false"


def test_the_scheduler_calls_the_extender_for_pods_that_request_devices(render: Render) -> None:
    rendered = render(_ON)
    config = scheduler_config(rendered)
    assert config["profiles"] == [{"schedulerName": SCHEDULER_NAME, "percentageOfNodesToScore": 100}]
    assert config["extenders"] == [
        {
            "urlPrefix": f"https://larder.{NAMESPACE}.svc:443/scheduler/{extender_key(KEY)}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "weight": 100,
            "enableHTTPS": True,
            "tlsConfig": {"caFile": "/etc/larder/tls/ca.crt"},
            "nodeCacheCapable": True,
            "httpTimeout": "500ms",
            "ignorable": False,
            "managedResources": [{"name": DEVICES_RESOURCE, "ignoredByScheduler": True}],
        }
    ]
    assert environment(rendered)["LARDER_SCHEDULER"] == "true"


def test_with_the_driver_the_dynamic_resources_plugin_has_the_highest_weight(render: Render) -> None:
    (profile,) = scheduler_config(render(_ON | {"dra": {"enabled": True}}))["profiles"]
    assert profile["plugins"] == {"multiPoint": {"enabled": [{"name": "DynamicResources", "weight": 100}]}}


def test_the_scheduler_mounts_only_the_ca_and_its_image_can_be_replaced(render: Render) -> None:
    pod = only(render(_ON), "Deployment", SCHEDULER_NAME)["spec"]["template"]["spec"]
    tls = next(volume["secret"] for volume in pod["volumes"] if volume["name"] == "tls")
    assert tls["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    repository, tag = pod["containers"][0]["image"].rsplit(":", 1)
    assert repository.endswith("/kube-scheduler")
    assert tag.startswith("v1.")
    digest = f"sha256:{'a' * 64}"
    own = {"scheduler": {"enabled": True, "image": {"repository": "r/s", "digest": digest}}} | {
        "admission": _ON["admission"]
    }
    (container,) = only(render(own), "Deployment", SCHEDULER_NAME)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"r/s@{digest}"


def test_a_new_configuration_restarts_the_scheduler(render: Render) -> None:
    def noted(values: Json) -> str:
        template = only(render(values), "Deployment", SCHEDULER_NAME)["spec"]["template"]
        return str(template["metadata"]["annotations"]["larder.dev/configuration"])

    heavier = _ON | {"scheduler": {"enabled": True, "weight": 7}}
    other_key = _ON | {"admission": {"pathKeys": [KEY[::-1]]}}
    assert len({noted(values) for values in (_ON, heavier, other_key)}) == 3


def test_the_scheduler_renders_with_all_features_switched_on(render: Render) -> None:
    assert scheduler_config(render(EVERYTHING | {"scheduler": {"enabled": True}}))


def test_the_scheduler_has_the_roles_of_kube_scheduler_and_a_lease_of_its_own(render: Render) -> None:
    rendered = render(_ON)
    roles = {
        body["roleRef"]["name"]
        for body in rendered
        if body["kind"] in {"ClusterRoleBinding", "RoleBinding"} and body["subjects"][0]["name"] == SCHEDULER_NAME
    }
    assert roles == {
        "system:kube-scheduler",
        "system:volume-scheduler",
        "extension-apiserver-authentication-reader",
        SCHEDULER_NAME,
    }
    named = [r for r in only(rendered, "Role", SCHEDULER_NAME)["rules"] if r["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [[SCHEDULER_NAME]]


@pytest.fixture(scope="module")
def switched_on(cluster: Helm) -> Iterator[None]:
    """The release with the scheduler; it is switched off again afterwards."""
    cluster.upgrade(LARDER, VALUES | {"scheduler": {"enabled": True}}, NAMESPACE)
    yield
    cluster.upgrade(LARDER, VALUES, NAMESPACE)


@pytest.mark.usefixtures("switched_on")
def test_the_controller_may_bind_pods_only_in_enabled_namespaces(api: Api, plane: ControlPlane) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    token = api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"]
    controller = plane.api_with_token(str(token))
    pod = plain_pod("to-bind")
    pod["spec"]["schedulingGates"] = [
        {"name": "test.example.org/held"}
    ]  # the API server then refuses any binding itself
    api.create("/api/v1/namespaces/default/pods", pod)
    body = {"metadata": {"name": "to-bind"}, "target": {"kind": "Node", "name": "n"}}

    def refusal() -> str:
        with pytest.raises(CallRefused) as refused:
            controller.call("POST", "/api/v1/namespaces/default/pods/to-bind/binding", body)
        return str(refused.value)

    wait_until(lambda: "larder-scheduler is not enabled in namespace default" in refusal(), 60, "the policy")
    api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"larder.dev/device-scheduling": "true"}}})
    wait_until(lambda: "schedulingGates" in refusal(), 60, "the policies to let it pass")
    api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"larder.dev/device-scheduling": None}}})
    api.delete("/api/v1/namespaces/default/pods/to-bind", grace_s=0)
    controller.close()
