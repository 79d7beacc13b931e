"""The DRA driver: its mounts, and what its token can do on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.dra.settings import DraSettings, parse_allowed
from rig import agents
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.dra import RESOURCE_CLAIMS, RESOURCES, SLICES
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, TEAMS, Render
from tests.chart.objects import environment, kinds, only, pod_specs

ON = {"dra": {"enabled": True}}
FORBIDDEN = 403
OWN, OTHER = "dra-a", "dra-b"
CLASSES = {"model.larder.dev", "private-model.larder.dev", "fetch-model.larder.dev"}


def test_the_dra_driver_is_off_by_default(render: Render) -> None:
    assert not {name for _, name in kinds(render()) if "dra" in name.split("-") or name in CLASSES}
    controller = pod_specs(render())["larder-controller"]["containers"][0]
    assert environment(controller)["LARDER_DRA"] == "false"


@pytest.mark.parametrize(("allow", "adds_devices"), [({}, False), ({"env": ["GPU_*"]}, True)])
def test_claims_belong_to_one_pod_if_the_driver_may_add_devices_to_them(
    render: Render, allow: Json, *, adds_devices: bool
) -> None:
    rendered = render({"dra": {"enabled": True, "allow": allow}})
    controller = pod_specs(rendered)["larder-controller"]["containers"][0]
    assert environment(controller)["LARDER_DRA_PLUGINS"] == str(adds_devices).lower()
    assert (("ValidatingAdmissionPolicy", "larder-claims-of-pods") in kinds(rendered)) is adds_devices
    (rule,) = (
        rule
        for rule in only(rendered, "ClusterRole", "larder-device-users")["rules"]
        if "resourceclaims" in rule["resources"]
    )
    assert "get" in rule["verbs"], "read before a pod with devices is bound"


def test_the_driver_runs_as_root_without_privileges_or_capabilities(render: Render) -> None:
    """Kubelet's directories belong to root; everything else is as restricted as in the other pods of the chart."""
    spec = pod_specs(render(ON))["larder-dra"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert spec["automountServiceAccountToken"] is False
    assert container["resources"]["limits"].keys() == {"memory", "ephemeral-storage"}


def test_the_driver_mounts_four_host_directories_and_the_store_read_only(render: Render) -> None:
    spec = pod_specs(render({"dra": {"enabled": True, "kubeletDir": "/data/kubelet", "cdiDir": "/etc/cdi"}}))[
        "larder-dra"
    ]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert paths == {
        "store": "/var/lib/larder",
        "driver": "/data/kubelet/plugins/model.larder.dev",
        "registration": "/data/kubelet/plugins_registry",
        "cdi": "/etc/cdi",
    }
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["store"]["readOnly"] is True
    assert {name: mounts[name]["mountPath"] for name in paths} == paths


def test_the_driver_gets_the_variables_and_volumes_for_its_plugins(render: Render) -> None:
    variable = {"name": "TUNERS", "value": "/run/tuners"}
    volume, mount = {"name": "tuners", "emptyDir": {}}, {"name": "tuners", "mountPath": "/run/tuners"}
    added = {"extraEnv": [variable], "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    devices = {"enabled": True, "exampleConfigMap": "gpus", "timeoutSeconds": 3}
    spec = pod_specs(render({"dra": {"enabled": True, **added}, "devices": devices}))["larder-dra"]
    (container,) = spec["containers"]
    assert variable in container["env"]
    assert volume in spec["volumes"]
    assert mount in container["volumeMounts"]
    (gpus,) = [each["name"] for each in spec["volumes"] if each.get("configMap", {}).get("name") == "gpus"]
    (folder,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == gpus]
    assert environment(container)["LARDER_EXAMPLE_DEVICES"] == f"{folder}/devices.json"
    assert environment(container)["LARDER_DEVICE_TIMEOUT_SECONDS"] == "3", "as the agent's"
    plain = pod_specs(render(ON))["larder-dra"]
    assert "devices.json" not in str(plain)


def test_every_variable_of_the_driver_is_a_known_setting(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    allow = {"devices": ["/dev/fuse"], "env": ["GPU_*"]}
    (container,) = pod_specs(render({"dra": {"enabled": True, "allow": allow}}))["larder-dra"]["containers"]
    given = environment(container)
    assert {key for key in given if key.startswith("LARDER_")} <= {
        f"LARDER_{f.upper()}" for f in DraSettings.model_fields
    }
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    allowed = parse_allowed(DraSettings().allow)  # type: ignore[call-arg]  # from the environment
    assert (allowed.mounts, allowed.devices, allowed.env) == ((), ("/dev/fuse",), ("GPU_*",))


def test_the_driver_accepts_no_network_traffic_by_default(render: Render) -> None:
    policy = only(render(ON), "NetworkPolicy", "larder-dra")
    assert policy["spec"]["ingress"] == []
    (container,) = pod_specs(render(ON))["larder-dra"]["containers"]
    assert "ports" not in container


@pytest.mark.parametrize(
    "values", [{"dra": {"enabled": True, "metrics": True}}, ON | {"monitoring": {"monitors": True}}]
)
def test_metrics_are_served_when_metrics_or_monitors_are_switched_on(values: Json, render: Render) -> None:
    readers: list[Json] = [{"namespaceSelector": {}}]
    rendered = render(values | {"networkPolicy": {"metricsFrom": readers}})
    (container,) = pod_specs(rendered)["larder-dra"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8082}]
    assert environment(container)["LARDER_LISTEN"] == "0.0.0.0:8082"
    policy = only(rendered, "NetworkPolicy", "larder-dra")
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}], "from": readers}]


def test_the_pod_monitor_selects_only_the_driver(render: Render) -> None:
    rendered = render(ON | {"monitoring": {"monitors": True, "labels": {"release": "prometheus"}}})
    monitor = only(rendered, "PodMonitor", "larder-dra")
    template = only(rendered, "DaemonSet", "larder-dra")["spec"]["template"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()
    assert (
        not selector.items()
        <= only(rendered, "DaemonSet", "larder-agent")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == template["spec"]["containers"][0]["ports"][0]["name"]
    assert ("PodMonitor", "larder-dra") not in kinds(render({"monitoring": {"monitors": True}}))


@pytest.fixture(scope="module")
def driver(api: Api, plane: ControlPlane) -> Iterator[Api]:
    """A client with the token that kubelet would put into the driver's pod on a node; the policies are in force."""
    for name in (OWN, OTHER):
        api.create("/api/v1/nodes", {"metadata": {"name": name}})
    pod = agents.create_agent_pod(api, OWN, probe_port=1, service_account="larder-dra", namespace=NAMESPACE)
    found = plane.api_with_token(agents.token(api, pod))
    wait_until(lambda: _refused(found, "POST", f"{SLICES}?dryRun=All", _slice(OTHER)), 60, "policies in force")
    yield found
    found.close()


def _slice(node: str, name: str = "", **spec: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": "model.larder.dev", "nodeName": node, "pool": pool, "devices": []}
    return {"metadata": {"name": name or f"{node}-models"}, "spec": body | spec}


def _event(**about: str) -> Json:
    return {"metadata": {"generateName": "larder-dra."}, "involvedObject": about, "reason": "R", "message": "m"}


def _refused(client: Api, method: str, path: str, body: Json | None = None) -> bool:
    try:
        client.call(method, path, body)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return True
    return False


def test_the_driver_may_write_only_slices_of_its_own_node_and_driver(driver: Api, api: Api) -> None:
    made = driver.create(SLICES, _slice(OWN))
    driver.call("PUT", f"{SLICES}/{OWN}-models", made)
    api.create(SLICES, _slice(OTHER))
    api.create(SLICES, _slice(OWN, "gpus", driver="gpu.example.org"))
    other_pool = {"name": OTHER, "generation": 9, "resourceSliceCount": 1}
    for body in (
        _slice(OTHER, "x"),
        _slice(OWN, "x", driver="gpu.example.org"),
        _slice(OWN, "x", pool=other_pool),
    ):
        assert _refused(driver, "POST", SLICES, body)
    everywhere = _slice(OWN, "x", allNodes=True)
    del everywhere["spec"]["nodeName"]
    assert _refused(driver, "POST", SLICES, everywhere)
    for name in (f"{OTHER}-models", "gpus"):
        assert _refused(driver, "PUT", f"{SLICES}/{name}", api.get(f"{SLICES}/{name}"))
        assert _refused(driver, "DELETE", f"{SLICES}/{name}")
    assert _refused(driver, "DELETE", SLICES)
    driver.delete(f"{SLICES}/{OWN}-models")
    for name in (f"{OTHER}-models", "gpus"):
        api.delete(f"{SLICES}/{name}")


def test_the_driver_may_write_events_only_on_its_own_node(driver: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    driver.create(path, _event(kind="Node", name=OWN))
    assert _refused(driver, "POST", path, _event(kind="Node", name=OTHER))
    assert _refused(driver, "POST", path, _event(kind="Pod", name=OWN, namespace="default"))
    assert _refused(driver, "POST", f"/api/v1/namespaces/{NAMESPACE}/events", _event(kind="Node", name=OWN))


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/api/v1/secrets"), ("GET", "/api/v1/pods"), ("GET", "/api/v1/nodes"), ("GET", "/api/v1/configmaps"),
    ("PATCH", f"/api/v1/nodes/{OWN}"), ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/any"),
    ("PATCH", f"{RESOURCES}/namespaces/{TEAMS[0]}/resourceclaims/any"),
    ("PATCH", f"{RESOURCES}/namespaces/{TEAMS[0]}/resourceclaims/any/status"),
    ("DELETE", f"{RESOURCES}/deviceclasses/model.larder.dev"), ("POST", f"{RESOURCES}/deviceclasses"),
    ("PATCH", f"/apis/larder.dev/v1alpha1/modelnodes/{OWN}/status"),
])  # fmt: skip
def test_requests_beyond_the_needs_of_the_driver_are_forbidden(method: str, path: str, driver: Api) -> None:
    assert _refused(driver, method, path, {} if method != "GET" else None)


def test_the_driver_may_read_claims_slices_its_node_and_model_nodes(driver: Api) -> None:
    driver.get(RESOURCE_CLAIMS)
    driver.get(f"{SLICES}?fieldSelector=spec.driver=model.larder.dev,spec.nodeName={OWN}")
    driver.get(f"/api/v1/nodes/{OWN}")
    driver.get("/apis/larder.dev/v1alpha1/modelnodes")


def test_a_token_without_a_node_cannot_write_anything(api: Api, plane: ControlPlane, driver: Api) -> None:
    del driver  # whose policies are in force
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-dra/token"
    client = plane.api_with_token(str(api.create(path, {"spec": {}})["status"]["token"]))
    try:
        assert _refused(client, "POST", SLICES, _slice(OWN))
        assert _refused(client, "POST", "/api/v1/namespaces/default/events", _event(kind="Node", name=OWN))
    finally:
        client.close()


def test_the_device_classes_exist(api: Api) -> None:
    assert {each["metadata"]["name"] for each in api.get(f"{RESOURCES}/deviceclasses")["items"]} >= CLASSES


def _claim(kind: str, *conditions: str, alternative: bool) -> tuple[str, Json]:
    request: Json = {
        "deviceClassName": "private-model.larder.dev",
        "selectors": [{"cel": {"expression": condition}} for condition in conditions],
    }
    fetch = {"name": "fetch", "deviceClassName": "fetch-model.larder.dev"}
    asked = {"firstAvailable": [request | {"name": "cached"}, fetch]} if alternative else {"exactly": request}
    spec: Json = {"devices": {"requests": [{"name": "model", **asked}]}}
    body = {"metadata": {"generateName": "c-"}, "spec": {"spec": spec} if "templates" in kind else spec}
    return f"{RESOURCES}/namespaces/{TEAMS[0]}/{kind}", body


@pytest.mark.parametrize("alternative", [False, True])
@pytest.mark.parametrize("kind", ["resourceclaims", "resourceclaimtemplates"])
def test_a_claim_for_private_models_must_select_its_own_namespace(
    kind: str, api: Api, driver: Api, *, alternative: bool
) -> None:
    del driver  # whose policies are in force
    own, other = (f'device.attributes["model.larder.dev"].namespace == "{team}"' for team in TEAMS)
    for conditions in ((), (other,), (f"{own} || true",), ("true", other)):
        with pytest.raises(CallRefused, match="must have this selector") as refused:
            api.create(*_claim(kind, *conditions, alternative=alternative))
        assert refused.value.status == FORBIDDEN
    api.create(*_claim(kind, own, alternative=alternative))
    api.create(*_claim(kind, "true", own, alternative=alternative))


def test_claims_for_other_devices_are_not_restricted(api: Api, driver: Api) -> None:
    del driver
    exactly = {"deviceClassName": "gpu.example.org"}
    requests = [{"name": "gpu", "exactly": exactly}]
    path = f"{RESOURCES}/namespaces/{TEAMS[0]}/resourceclaims"
    api.create(path, {"metadata": {"generateName": "c-"}, "spec": {"devices": {"requests": requests}}})
    api.create(path, {"metadata": {"generateName": "c-"}, "spec": {}})


def test_a_claim_from_before_the_policy_can_still_be_changed_and_deleted(api: Api, driver: Api) -> None:
    """Kubernetes removes its own finalizer from claims, and nobody can correct their requests."""
    del driver  # whose policies are in force
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    path, body = _claim("resourceclaims", alternative=False)
    binding = api.get(f"{bindings}/larder-private-models")
    api.delete(f"{bindings}/larder-private-models")
    wait_until(lambda: not _refused(api, "POST", f"{path}?dryRun=All", body), 60, "the policy to be off")
    claim = api.create(path, body | {"metadata": {"generateName": "c-", "finalizers": ["example.org/f"]}})
    meta = {key: binding["metadata"][key] for key in ("name", "labels", "annotations")}
    api.create(bindings, {"metadata": meta, "spec": binding["spec"]})
    wait_until(lambda: _refused(api, "POST", f"{path}?dryRun=All", body), 60, "the policy to be on")
    where = f"{path}/{claim['metadata']['name']}"
    api.delete(where)
    api.patch(where, {"metadata": {"finalizers": None}})
    wait_until(lambda: not api.answers(where), 60, "the claim to be gone")


def _pod(api: Api) -> Json:
    """Create a pod that nothing schedules; claims of pods that do not exist are removed."""
    container = {"name": "main", "image": "i", "securityContext": {"allowPrivilegeEscalation": False}}
    spec = {"schedulerName": "none", "containers": [container]}
    return api.create(f"/api/v1/namespaces/{TEAMS[0]}/pods", {"metadata": {"generateName": "p-"}, "spec": spec})


def _claim_of(api: Api, *owners: Json) -> Json:
    exactly = {"deviceClassName": "model.larder.dev"}
    return api.create(f"{RESOURCES}/namespaces/{TEAMS[0]}/resourceclaims", {
        "metadata": {"generateName": "c-", "ownerReferences": list(owners)},
        "spec": {"devices": {"requests": [{"name": "model", "exactly": exactly}]}},
    })  # fmt: skip


def _owner(pod: Json) -> Json:
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}


def _path(claim: Json) -> str:
    return f"{RESOURCES}/namespaces/{TEAMS[0]}/resourceclaims/{claim['metadata']['name']}"


def _reserve(api: Api, claim: Json, *pods: Json) -> None:
    """Reserve a claim for exactly these pods, as kube-scheduler does."""
    result = {"request": "model", "driver": "model.larder.dev", "pool": OWN, "device": "fetch"}
    users = [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    api.patch(f"{_path(claim)}/status", {"status": status})


def test_a_claim_that_was_created_for_a_pod_is_reserved_for_no_other(api: Api, driver: Api) -> None:
    """Kubelet prepares a claim once: the other pod would get the devices of the first."""
    del driver  # whose policies are in force
    first, second = _pod(api), _pod(api)
    claim = _claim_of(api, _owner(first))
    refusal = f"for another pod than {second['metadata']['name']}: name a ResourceClaimTemplate"
    with pytest.raises(CallRefused, match=refusal):
        _reserve(api, claim, second)
    _reserve(api, claim, first)
    with pytest.raises(CallRefused, match=refusal):
        _reserve(api, claim, first, second)
    with pytest.raises(CallRefused, match="must keep the pod"):
        api.patch(_path(claim), {"metadata": {"ownerReferences": []}})
    _reserve(api, claim)
    api.patch(_path(claim), {"metadata": {"ownerReferences": []}})


def test_claims_that_were_not_created_for_a_pod_can_be_shared(api: Api, driver: Api) -> None:
    del driver
    first, second, third = (_pod(api) for _ in range(3))
    claim = _claim_of(api)
    _reserve(api, claim, first, second)
    api.patch(_path(claim), {"metadata": {"ownerReferences": [_owner(first)]}})
    _reserve(api, claim, second)  # pods that use it already go on, and end
    with pytest.raises(CallRefused, match="for another pod"):
        _reserve(api, claim, second, third)


def test_claims_of_pods_are_restricted_only_if_device_plugins_may_add_something(render: Render) -> None:
    policy = ("ValidatingAdmissionPolicy", "larder-claims-of-pods")
    assert policy not in kinds(render(ON))
    assert policy in kinds(render({"dra": {"enabled": True, "allow": {"devices": ["/dev/fuse"]}}}))


def test_users_cannot_write_the_allocations_that_the_driver_trusts(render: Render) -> None:
    """The policy is tested with the scheduler; it must also exist without it."""
    only(render(ON), "ValidatingAdmissionPolicy", "larder-device-annotations")
    binding = only(render(ON), "ValidatingAdmissionPolicyBinding", "larder-device-annotations")
    assert binding["spec"]["validationActions"] == ["Deny"]
