"""Rights of agents for devices: none by default, and few when devices are switched on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.devices.decide import RECORD, DeviceObservation, decide
from agent.devices.node_devices import DevicesOfNode
from agent.settings import AgentSettings
from rig import agents
from rig.agents import AgentPod
from rig.api import MERGE, Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import LARDER, Helm
from rig.processes import wait_until
from shared.devices.annotation import ANNOTATION
from shared.devices.info import NodeInfo
from shared.json_object import Json
from shared.kube.transport import connect
from tests.chart.conftest import NAMESPACE, VALUES, Render
from tests.chart.objects import environment, kinds, only, pod_specs

ON = {"devices": {"enabled": True, "prefixes": ["larder.dev/", "example.com/gpu-"]}}
OWN, OTHER = "/api/v1/nodes/node-with-devices", "/api/v1/nodes/node-beside"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
JSON_PATCH = "application/json-patch+json"
FORBIDDEN = 403
GPUS = {"larder.dev/example-gpu": "4", "example.com/gpu-large": "2"}


def _both(**quantities: str | None) -> Json:
    return {"status": {"capacity": quantities, "allocatable": quantities}}


def test_agents_have_no_device_rights_or_settings_by_default(render: Render) -> None:
    rendered = render()
    switched = {"larder-agent-devices", "larder-agent-node-status"}
    assert switched & {name for _, name in kinds(rendered)} == set()
    assert switched <= {name for _, name in kinds(render(ON))}
    roles = [o for o in rendered if o["kind"] in ("ClusterRole", "Role")]
    assert "nodes/status" not in {
        resource
        for role in roles
        if role["metadata"]["name"].startswith("larder-agent")
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    policy = only(rendered, "ValidatingAdmissionPolicy", "larder-agent-nodes")
    assert "DeviceInfo" not in str(policy)
    assert "DeviceInfo" in str(only(render(ON), "ValidatingAdmissionPolicy", "larder-agent-nodes"))
    (container,) = pod_specs(rendered)["larder-agent"]["containers"]
    assert not [name for name in environment(container) if "DEVICE" in name]


def test_device_values_are_passed_to_the_agent(render: Render) -> None:
    chosen = {"intervalSeconds": 30, "timeoutSeconds": 3, "exampleConfigMap": "gpus", "withdraw": True}
    spec = pod_specs(render({"devices": ON["devices"] | chosen}))["larder-agent"]
    (container,) = spec["containers"]
    variables = environment(container)
    fields = {name: f"LARDER_{name.upper()}" for name in AgentSettings.model_fields}
    assert {name: variables[fields[name]] for name in fields if "device" in name} == {
        "devices": "true",
        "withdraw_devices": "true",
        "device_seconds": "30",
        "device_timeout_seconds": "3",
        "device_prefixes": "larder.dev/,example.com/gpu-",
        "example_devices": "/etc/larder/devices/devices.json",
    }
    (volume,) = [v for v in spec["volumes"] if v.get("configMap", {}).get("name") == "gpus"]
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
    assert mount["mountPath"] == str(Path(variables["LARDER_EXAMPLE_DEVICES"]).parent)
    assert volume["configMap"]["optional"], "models do not wait for devices"
    plain = pod_specs(render(ON))["larder-agent"]
    assert "example-devices" not in str(plain)


def test_values_of_a_release_without_devices_still_render(render: Render) -> None:
    assert ("ClusterRole", "larder-agent-devices") not in kinds(render({"devices": None}))


def test_the_agent_gets_only_the_right_to_patch_node_status(render: Render) -> None:
    role = only(render(ON), "ClusterRole", "larder-agent-devices")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]


@pytest.fixture(scope="module")
def switched_on(cluster: Helm, api: Api) -> Iterator[Api]:
    """A client with all rights, while devices are enabled."""
    cluster.upgrade(LARDER, VALUES | ON, NAMESPACE)
    try:
        yield api
    finally:
        cluster.upgrade(LARDER, VALUES, NAMESPACE)


@pytest.fixture(scope="module")
def pod(switched_on: Api) -> Iterator[AgentPod]:
    """The agent's pod on one of two nodes, both with resources of others."""
    for path in (OWN, OTHER):
        fields = {"name": path.rpartition("/")[2], "labels": {"pool": "gpus"}, "annotations": {"kept": "x"}}
        switched_on.create("/api/v1/nodes", {"metadata": fields})
        switched_on.patch(f"{path}/status", _both(**{"cpu": "4", "nvidia.com/gpu": "8", "larder.dev/example-gpu": "1"}))
    name = OWN.rpartition("/")[2]
    account = {"service_account": "larder-agent", "namespace": NAMESPACE}
    yield agents.create_agent_pod(switched_on, name, probe_port=1, **account)
    for path in (OWN, OTHER):
        switched_on.delete(path)


@pytest.fixture(scope="module")
def agent(switched_on: Api, pod: AgentPod, plane: ControlPlane) -> Iterator[Api]:
    """A client with the token of that pod, once the policies are in force."""
    found = plane.api_with_token(agents.token(switched_on, pod))
    probe = {"status": {"nodeInfo": {"kernelVersion": "probe"}}}
    wait_until(lambda: _refused(found, f"{OWN}/status?dryRun=All", probe), 60, "policies in force")
    annotation = {"metadata": {"annotations": {ANNOTATION: "{}"}}}
    wait_until(lambda: not _refused(found, f"{OWN}?dryRun=All", annotation), 60, "the policy of before to be gone")
    yield found
    found.close()


def _refused(client: Api, path: str, body: object, kind: str = MERGE) -> bool:
    """Return whether the server forbids the request; any other refusal proves nothing."""
    try:
        client.call("PATCH", path, body, kind)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return True
    return False


def test_the_agent_may_advertise_and_withdraw_extended_resources(agent: Api, switched_on: Api) -> None:
    agent.patch(f"{OWN}/status", _both(**GPUS))
    status = switched_on.get(OWN)["status"]
    assert status["capacity"] == status["allocatable"] == {"cpu": "4", "nvidia.com/gpu": "8"} | GPUS
    agent.patch(f"{OWN}/status", _both(**dict.fromkeys(GPUS)))
    assert switched_on.get(OWN)["status"]["capacity"] == {"cpu": "4", "nvidia.com/gpu": "8"}
    agent.patch(f"{OWN}/status", {"status": {"capacity": GPUS}})
    agent.patch(f"{OWN}/status", {"status": {"capacity": dict.fromkeys(GPUS)}})


def test_the_agent_may_write_the_device_annotation(agent: Api, switched_on: Api) -> None:
    agent.patch(OWN, {"metadata": {"annotations": {ANNOTATION: '{"name":"x"}', RECORD: "larder.dev/example-gpu"}}})
    agent.patch(OWN, {"metadata": {"annotations": {ANNOTATION: None}}})
    assert ANNOTATION not in switched_on.get(OWN)["metadata"]["annotations"]
    agent.patch(OWN, {"metadata": {"annotations": {ANNOTATION: "x" * 96 * 1024}}})
    agent.patch(OWN, {"metadata": {"annotations": {ANNOTATION: None}}})


def test_every_write_of_the_advertiser_is_allowed(
    agent: Api, pod: AgentPod, switched_on: Api, plane: ControlPlane, tmp_path: Path
) -> None:
    assert agent.get(OWN)
    kubeconfig = plane.token_kubeconfig(agents.token(switched_on, pod), tmp_path / "kubeconfig")
    offers = {name: int(quantity) for name, quantity in GPUS.items()}
    cards = {f"resource/group/gpu/{n}/cards": 1 for n in range(500)}
    full = NodeInfo("x", cards, cards, {}, {}, offers, offers)
    for info in (
        full,
        NodeInfo("x", kube_cap={**offers, "larder.dev/example-gpu": 5}, kube_alloc=offers),
        NodeInfo("x"),
    ):
        asyncio.run(_advertise(kubeconfig, info))
        node = switched_on.get(OWN)
        assert (ANNOTATION in node["metadata"]["annotations"]) is (info is full)
        assert {n: int(node["status"]["allocatable"].get(n, 0)) for n in offers} == dict.fromkeys(
            offers, 0
        ) | info.kube_alloc
    assert RECORD not in switched_on.get(OWN)["metadata"]["annotations"]


async def _advertise(kubeconfig: Path, info: NodeInfo) -> None:
    """Run one round of the advertiser and check that the next round has nothing to do."""
    async with connect(kubeconfig) as kube:
        devices = DevicesOfNode(kube, OWN.rpartition("/")[2])
        for _ in range(4):
            actions = decide(DeviceObservation(await devices.read(), info, ("larder.dev/", "example.com/gpu-")))
            for action in actions:
                await devices.apply(action, (await devices.read()).uid)
            if not actions:
                return
        raise AssertionError(actions)


CONDITION = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}


@pytest.mark.parametrize(
    "body",
    [
        {"status": {"capacity": {"cpu": "999"}}},
        {"status": {"allocatable": {"cpu": "999"}}},
        {"status": {"capacity": {"cpu": None}}},
        {"status": {"allocatable": {"cpu": None}}},
        {"status": {"capacity": {"memory": "1Ti"}}},
        {"status": {"capacity": {"pods": "1000"}}},
        _both(**{"nvidia.com/gpu": "16"}),
        _both(**{"nvidia.com/gpu": None}),
        {"status": {"allocatable": {"nvidia.com/gpu": "0"}}},
        _both(**{"example.com/other": "1"}),
        _both(**{"example.com/gpu": "1"}),
        _both(**{"larder.dev.example.com/x": "1"}),
        _both(**{"larder.dev/example-gpu": "4", "cpu": "999"}),
        {"status": {"capacity": None}},
        {"status": None},
        {"status": {"conditions": [CONDITION]}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}},
        {"status": {"nodeInfo": {"kubeletVersion": "v9"}}},
        {"status": {"images": [{"names": ["x"], "sizeBytes": 1}]}},
        {"status": {"volumesInUse": ["x"]}},
        {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}},
        {"status": {"phase": "Running"}},
        {"status": {"features": {"supplementalGroupsPolicy": True}}},
        _both(**{f"larder.dev/r{n}": "1" for n in range(300)}),
        {"metadata": {"labels": {"model-cache-ready-m": "true"}}},
        {"metadata": {"labels": {"pool": None}}},
        {"metadata": {"annotations": {"larder.dev/x": "y"}}},
        {"metadata": {"annotations": {ANNOTATION: "{}"}}},
        {"metadata": {"finalizers": ["larder.dev/x"]}},
    ],
    ids=str,
)
def test_a_status_patch_cannot_change_what_the_agent_does_not_own(body: Json, agent: Api, switched_on: Api) -> None:
    before = _of_others(switched_on.get(OWN))
    assert _refused(agent, f"{OWN}/status", body)
    assert _of_others(switched_on.get(OWN)) == before


def _of_others(node: Json) -> Json:
    """Return what the agent must not change, without conditions and taints, which the node's controllers write."""
    metadata = {key: node["metadata"].get(key) for key in ("labels", "annotations", "finalizers")}
    return metadata | {key: node["status"].get(key) for key in ("capacity", "allocatable", "addresses", "nodeInfo")}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/status/capacity", "value": {}},
        {"op": "remove", "path": "/status/capacity/nvidia.com~1gpu"},
        {"op": "move", "from": "/status/capacity/nvidia.com~1gpu", "path": "/status/capacity/larder.dev~1x"},
        {"op": "add", "path": "/status/runtimeHandlers", "value": [{"name": "x"}]},
    ],
    ids=str,
)
def test_a_json_patch_of_the_node_status_is_refused(operation: Json, agent: Api) -> None:
    assert _refused(agent, f"{OWN}/status", [operation], JSON_PATCH)


def test_apply_update_and_proxy_requests_to_the_node_status_are_refused(agent: Api, switched_on: Api) -> None:
    apply = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": OWN.rpartition("/")[2]}, **_both(**GPUS)}
    for path in (f"{OWN}/status?fieldManager=x&force=true", f"{OWN}/status?fieldManager=larder-agent&force=true"):
        assert _refused(agent, path, apply, "application/apply-patch+yaml")
    with pytest.raises(CallRefused, match="403"):
        agent.call("PUT", f"{OWN}/status", switched_on.get(OWN))
    for path in (f"{OWN}/proxy", f"{OWN}/status/x"):
        with pytest.raises(CallRefused, match=r"40[34]"):
            agent.get(path)


def test_the_agent_cannot_patch_another_node(agent: Api, switched_on: Api) -> None:
    assert _refused(agent, f"{OTHER}/status", _both(**GPUS))
    assert _refused(agent, f"{OTHER}/status?dryRun=All", {})
    assert _refused(agent, OTHER, {"metadata": {"annotations": {ANNOTATION: "{}"}}})
    assert switched_on.get(OTHER)["status"]["capacity"]["larder.dev/example-gpu"] == "1"


@pytest.mark.parametrize(
    "annotations",
    [
        {ANNOTATION: "x" * 131072},
        {"KubeDevice/Other": "x"},
        {"kubedevice/deviceinfo": "x"},
        {"KubeDevice/DeviceInfo.x": "x"},
        {"kept": None},
        {ANNOTATION: "{}", "kept": "y"},
        {ANNOTATION: "x" * 70000, "larder.dev/x": "x" * 70000},
    ],
    ids=lambda annotations: str(annotations)[:60],
)
def test_other_or_oversized_annotations_are_refused(annotations: Json, agent: Api) -> None:
    assert _refused(agent, OWN, {"metadata": {"annotations": annotations}})


def test_a_token_without_a_node_cannot_write_a_node_status(switched_on: Api, agent: Api, plane: ControlPlane) -> None:
    assert agent.get(OWN)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    unbound = str(switched_on.create(f"{accounts}/larder-agent/token", {"spec": {}})["status"]["token"])
    client = plane.api_with_token(unbound)
    try:
        assert _refused(client, f"{OWN}/status", _both(**GPUS))
    finally:
        client.close()


def test_other_clients_can_still_write_the_node_status(switched_on: Api, agent: Api) -> None:
    assert agent.get(OWN)
    switched_on.patch(f"{OTHER}/status", _both(**{"nvidia.com/gpu": "7"}))
    switched_on.patch(f"{OTHER}/status", _both(**{"nvidia.com/gpu": "8"}))


def test_the_policies_pass_type_checking_without_warnings(switched_on: Api) -> None:
    for name in ("larder-agent-node-status", "larder-agent-nodes"):
        path = f"{POLICIES}/{name}"
        wait_until(lambda path=path: switched_on.get(path).get("status", {}).get("observedGeneration"), 60, name)  # type: ignore[misc]
        assert not switched_on.get(path)["status"].get("typeChecking", {}).get("expressionWarnings")
