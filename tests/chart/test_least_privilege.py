"""What the token of an agent can and cannot do on a real API server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rig import agents
from rig.agents import AgentPod
from rig.api import MERGE, Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE

JSON = "application/json"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
NODES, MODEL_NODES = "/api/v1/nodes", "/apis/larder.dev/v1alpha1/modelnodes"
OWN, OTHER = f"{NODES}/node-a", f"{NODES}/node-b"
OWN_MODELS, OTHER_MODELS = f"{MODEL_NODES}/node-a", f"{MODEL_NODES}/node-b"
MODELS = "/apis/ome.io/v1beta1"
CACHES = "/apis/serving.kserve.io/v1alpha1"
READY, SNAPSHOT = "model-cache-ready-m", "snapshot.larder.dev/0123456789abcdef0123"
FETCHING, DRAINING = "fetching.larder.dev/0123456789abcdef0123", "draining.larder.dev/0123456789abcdef0123"
FORBIDDEN, UNPROCESSABLE = 403, 422


def _metadata(**fields: object) -> Json:
    return {"metadata": fields}


@dataclass(frozen=True)
class Try:
    """One request of an agent of node-a."""

    method: str
    path: str
    body: Json | list[Json] | None = None
    kind: str = MERGE

    def __str__(self) -> str:
        return f"{self.method} {self.path} {str(self.body or '')[:150]}"


def _post(path: str, body: Json) -> Try:
    return Try("POST", path, body, JSON)


def _json_patch(**operation: object) -> Try:
    return Try("PATCH", OWN, [operation], JSON_PATCH)


def _apply(manager: str, **labels: str) -> Try:
    body = {"apiVersion": "v1", "kind": "Node"} | _metadata(name="node-a", labels=labels)
    return Try("PATCH", f"{OWN}?fieldManager={manager}&force=true", body, APPLY)


REFUSED = [
    # Secrets, ConfigMaps, pods, other accounts
    Try("GET", "/api/v1/secrets"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-tls"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-ca"),
    Try("GET", "/api/v1/namespaces/team-a/secrets/any"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
    Try("GET", "/api/v1/pods"),
    Try("GET", "/api/v1/pods?fieldSelector=spec.nodeName=node-a"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
    Try("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    _post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-agent/token", {"spec": {}}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller/token", {"spec": {}}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/pods", {"spec": {"containers": [{"name": "c", "image": "i"}]}}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/events", {}),
    _post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    _post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "x"}}),
    Try("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
    # models
    Try("GET", f"{MODELS}/basemodels"),
    Try("GET", f"{MODELS}/clusterbasemodels"),
    Try("GET", f"{CACHES}/clustermodelcaches"),
    Try("GET", f"{CACHES}/modelcachenodegroups"),
    _post(f"{MODELS}/clusterbasemodels", {"metadata": {"name": "m"}, "spec": {}}),
    # access to other pods, other accounts, other programs
    _post(f"/api/v1/namespaces/{NAMESPACE}/pods/any/exec?command=ls", {}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/pods/any/portforward", {}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/pods/any/eviction", {}),
    _post(f"/api/v1/namespaces/{NAMESPACE}/pods/any/binding", {}),
    Try("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/any/ephemeralcontainers", {}),
    _post("/apis/events.k8s.io/v1/namespaces/default/events", {}),
    _post("/apis/certificates.k8s.io/v1/certificatesigningrequests", {}),
    _post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {}),
    _post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", {}),
    _post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {}),
    Try("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    Try("GET", "/api/v1/namespaces"),
    Try("GET", "/api/v1/persistentvolumes"),
    Try("GET", "/metrics"),
    Try("GET", f"/api/v1/namespaces/{NAMESPACE}/services/https:larder:443/proxy/metrics"),
    # other nodes
    Try("GET", NODES),
    Try("PATCH", OTHER, _metadata(labels={READY: "true"})),
    Try("PATCH", OTHER, _metadata(labels={SNAPSHOT: "true"})),
    Try("PATCH", OTHER, _metadata(labels={FETCHING: "true"})),
    Try("PATCH", OTHER, _metadata(labels={DRAINING: "true"})),
    Try("PATCH", OTHER, _metadata(annotations={"larder.dev/x": "y"})),
    Try("PATCH", OTHER, {}),
    Try("PATCH", f"{OTHER}?dryRun=All", _metadata(labels={READY: "true"})),
    _post(NODES, {"metadata": {"name": "node-c"}}),
    Try("DELETE", OTHER),
    Try("DELETE", NODES),
    # its own node: everything except our labels and annotations
    Try("DELETE", OWN),
    Try("PUT", OWN, {"metadata": {"name": "node-a"}}, JSON),
    Try("PATCH", OWN, _metadata(labels={"x": "y"})),
    Try("PATCH", OWN, _metadata(labels={"node-role.kubernetes.io/control-plane": ""})),
    Try("PATCH", OWN, _metadata(labels={"pool": "other"})),
    Try("PATCH", OWN, _metadata(labels={"pool": None})),
    Try("PATCH", OWN, _metadata(labels={READY: "true", "x": "y"})),
    Try("PATCH", OWN, _metadata(labels={"model-cache-ready": "true"})),
    Try("PATCH", OWN, _metadata(labels={"Model-Cache-Ready-m": "true"})),
    Try("PATCH", OWN, _metadata(labels={"model-cache-ready-x.example.com/y": "true"})),
    Try("PATCH", OWN, _metadata(labels={"x.snapshot.larder.dev/y": "true"})),
    Try("PATCH", OWN, _metadata(labels={"x.fetching.larder.dev/y": "true"})),
    Try("PATCH", OWN, _metadata(labels={"x.draining.larder.dev/y": "true"})),
    Try("PATCH", OWN, _metadata(labels={"larder.dev/x": "true"})),
    Try("PATCH", OWN, _metadata(labels={"node-restriction.kubernetes.io/x": "true"})),
    Try("PATCH", OWN, _metadata(labels={READY: "false"})),
    Try("PATCH", OWN, _metadata(labels={SNAPSHOT: "x" * 63})),
    Try("PATCH", OWN, _metadata(labels={FETCHING: "false"})),
    Try("PATCH", OWN, _metadata(labels={DRAINING: "false"})),
    Try("PATCH", OWN, _metadata(labels={f"model-cache-ready-{i}": "true" for i in range(4001)})),
    Try("PATCH", OWN, _metadata(labels={f"fetching.larder.dev/{i}": "true" for i in range(4001)})),
    Try("PATCH", OWN, {"metadata": {"labels": {"$patch": "replace", READY: "true"}}}, STRATEGIC),
    _json_patch(op="replace", path="/metadata/labels", value={READY: "true"}),
    _json_patch(op="replace", path="/metadata/labels/pool", value="true"),
    _json_patch(op="move", path=f"/metadata/labels/{READY}", **{"from": "/metadata/labels/pool"}),
    _json_patch(op="copy", path=f"/metadata/labels/{READY}", **{"from": "/metadata/labels/pool"}),
    Try("PATCH", f"{OWN}?dryRun=All", _metadata(labels={"x": "y"})),
    Try("PATCH", OWN, _metadata(annotations={"larder.dev/x": "x" * 131072})),
    Try("PATCH", OWN, _metadata(generateName="x")),
    # the record of field managers
    _apply("larder-agent", applied="true"),
    _apply("operator"),
    _apply("larder-agent", **{READY: "true"}),
    Try("PATCH", OWN, _metadata(managedFields=[{}])),
    Try("PATCH", OWN, _metadata(annotations={"x": "y"})),
    Try("PATCH", OWN, _metadata(annotations={"kept": None})),
    Try("PATCH", OWN, _metadata(finalizers=["larder.dev/x"])),
    Try("PATCH", OWN, _metadata(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}])),
    Try("PATCH", OWN, {"spec": {"unschedulable": True}}),
    Try("PATCH", OWN, {"spec": {"podCIDR": "10.9.0.0/24"}}),
    Try("PATCH", OWN, {"spec": {"providerID": "x://y"}}),
    Try("PATCH", f"{OWN}/status", {"status": {"capacity": {"cpu": "999"}}}),
    Try("GET", f"{OWN}/proxy/pods"),
    # ModelNodes: everything except its own status
    _post(MODEL_NODES, {"metadata": {"name": "node-c"}, "spec": {}}),
    Try("DELETE", OWN_MODELS),
    Try("DELETE", MODEL_NODES),
    Try("PATCH", OWN_MODELS, {"spec": {"storageLimit": 1}}),
    Try("PATCH", OWN_MODELS, _metadata(labels={"x": "y"})),
    Try("PATCH", OTHER_MODELS, {"spec": {"storageLimit": 1}}),
    Try("PATCH", f"{OTHER_MODELS}/status", {"status": {"storeID": "stolen"}}),
    # widening its own rights
    Try("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/larder-agent", {"rules": []}),
    Try(
        "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/larder-agent-nodes"
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def pod(api: Api) -> AgentPod:
    """The agent's pod of node-a, beside node-b; returns when the policies are in force."""
    for name in ("node-a", "node-b"):
        fields = {"name": name, "labels": {"pool": "gpus"}, "annotations": {"kept": "x"}}
        node = api.create(NODES, {"metadata": fields})
        uid = node["metadata"]["uid"]
        made = {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "spec": {"nodeUID": uid}}
        api.create(MODEL_NODES, made | _metadata(name=name))
    applied = _apply("operator", applied="true")
    api.call(applied.method, applied.path, applied.body, applied.kind)
    return agents.create_agent_pod(api, "node-a", probe_port=1, service_account="larder-agent", namespace=NAMESPACE)


@pytest.fixture(scope="module")
def agent(api: Api, pod: AgentPod, plane: ControlPlane) -> Iterator[Api]:
    """A client with the token that the kubelet would put into that pod."""
    found = plane.api_with_token(agents.token(api, pod))
    wait_until(lambda: _refused(found, Try("PATCH", OTHER, _metadata(labels={READY: "x"}))), 60, "policies in force")
    yield found
    found.close()


def _refused(client: Api, attempt: Try) -> bool:
    """Return whether the server forbids the request; any other refusal, such as of a wrong body, proves nothing."""
    try:
        client.call(attempt.method, attempt.path, attempt.body, attempt.kind)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return True
    return False


@pytest.mark.parametrize("attempt", REFUSED, ids=str)
def test_requests_beyond_the_needs_of_the_agent_are_refused(attempt: Try, agent: Api, api: Api) -> None:
    before = [api.get(path) for path in (OWN, OTHER, OWN_MODELS, OTHER_MODELS)]
    assert _refused(agent, attempt)
    after = [api.get(path) for path in (OWN, OTHER, OWN_MODELS, OTHER_MODELS)]
    assert [_wanted(o) for o in before] == [_wanted(o) for o in after]


def _wanted(found: Json) -> Json:
    """Return what the agent must not change, without status and taints, which the node's controllers write."""
    kept = {k: found["metadata"].get(k) for k in ("uid", "labels", "annotations", "finalizers", "ownerReferences")}
    return kept | {"spec": found["spec"] if found.get("kind") == "ModelNode" else None}


def test_the_agent_cannot_rewrite_field_ownership_of_other_managers(agent: Api, api: Api) -> None:
    """An applied field that the next apply omits is removed, so this would remove the label `pool`."""
    fields = api.get(OWN)["metadata"]["managedFields"]
    (operator,) = [entry for entry in fields if entry["operation"] == "Apply"]
    operator["fieldsV1"]["f:metadata"]["f:labels"]["f:pool"] = {}
    assert _refused(agent, Try("PATCH", OWN, _metadata(managedFields=fields)))


def test_the_agent_may_remove_its_labels_even_if_others_applied_them(agent: Api, api: Api) -> None:
    put_on = _apply("operator", applied="true", **{READY: "true"})
    api.call(put_on.method, put_on.path, put_on.body, put_on.kind)
    agent.patch(OWN, _metadata(labels={READY: None}))
    assert READY not in api.get(OWN)["metadata"]["labels"]
    put_back = _apply("operator", applied="true")
    api.call(put_back.method, put_back.path, put_back.body, put_back.kind)
    api.patch(OWN, _metadata(labels={READY: "by-hand"}))
    agent.patch(OWN, _metadata(labels={SNAPSHOT: "true"}))
    agent.patch(OWN, _metadata(labels={SNAPSHOT: None, READY: None}))


STARTUP = {"key": "larder.dev/agent-not-ready", "effect": "NoSchedule"}
STARTUP_OF_CLOUDS = STARTUP | {"key": "startup-taint.cluster-autoscaler.kubernetes.io/larder-agent-not-ready"}
GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
NOT_OURS = STARTUP | {"effect": "NoExecute"}  # this one ends running pods


@pytest.fixture
def tainted(api: Api, agent: Api) -> list[Json]:
    """The taints of node-a, those of Kubernetes included, after an administrator added three."""
    del agent  # whose policies are in force
    kept = [t for t in api.get(OWN)["spec"].get("taints", []) if t["key"].startswith("node.kubernetes.io/")]
    found: list[Json] = api.patch(OWN, {"spec": {"taints": [*kept, GPU, STARTUP, NOT_OURS]}})["spec"]["taints"]
    return found


@pytest.mark.parametrize(
    "changed",
    [
        lambda _: [],
        lambda _: [STARTUP],
        lambda taints: [*taints, GPU | {"key": "x"}],
        lambda taints: [t for t in taints if t != GPU],
        lambda taints: [t for t in taints if t != NOT_OURS],
        lambda taints: [t for t in taints if t not in (STARTUP, NOT_OURS)],
        lambda taints: [t for t in taints if t not in (STARTUP, GPU)],
        lambda taints: [t | {"value": "x"} if t == STARTUP else t for t in taints],
        lambda taints: [t | {"value": "x"} if t == GPU else t for t in taints if t != STARTUP],
        lambda taints: [t for t in reversed(taints) if t != STARTUP],
        lambda taints: [*(t for t in taints if t != STARTUP), GPU | {"key": "x"}],
    ],
)
def test_the_agent_cannot_change_foreign_taints_or_add_any(
    changed: Callable[[list[Json]], list[Json]], tainted: list[Json], agent: Api, api: Api
) -> None:
    assert _refused(agent, Try("PATCH", OWN, {"spec": {"taints": changed(tainted)}}))
    assert _of_ours(api) == [GPU, STARTUP, NOT_OURS]


def test_no_other_field_may_change_with_the_startup_taint(tainted: list[Json], agent: Api, api: Api) -> None:
    kept = [t for t in tainted if t != STARTUP]
    for more in ({"unschedulable": True}, {"podCIDR": "10.9.0.0/24"}, {"providerID": "x://y"}):
        assert _refused(agent, Try("PATCH", OWN, {"spec": {"taints": kept, **more}}))
    assert _refused(agent, Try("PATCH", OWN, {"spec": {"taints": kept}, **_metadata(labels={"x": "y"})}))
    assert _refused(agent, Try("PATCH", OTHER, {"spec": {"taints": kept}}))
    assert _of_ours(api) == [GPU, STARTUP, NOT_OURS]


@pytest.mark.parametrize("startup", [STARTUP, STARTUP_OF_CLOUDS])
def test_the_startup_taint_can_be_removed_but_not_restored(
    startup: Json, tainted: list[Json], agent: Api, api: Api
) -> None:
    before = [startup if t == STARTUP else t for t in tainted]
    after = [t for t in tainted if t != STARTUP]
    api.patch(OWN, {"spec": {"taints": before}})
    agent.patch(OWN, {"spec": {"taints": after}})
    assert _of_ours(api) == [GPU, NOT_OURS]
    assert _refused(agent, Try("PATCH", OWN, {"spec": {"taints": before}}))


def test_a_startup_taint_that_was_applied_server_side_can_be_removed(agent: Api, api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "Node", **_metadata(name="node-a"), "spec": {"taints": [STARTUP]}}
    api.call("PATCH", f"{OWN}?fieldManager=cloud&force=true", body, APPLY)
    agent.patch(OWN, {"spec": {"taints": []}})
    assert _of_ours(api) == []


def _of_ours(api: Api) -> list[Json]:
    """Return the taints of these tests, without those of Kubernetes."""
    taints = api.get(OWN)["spec"].get("taints", [])
    return [t for t in taints if not t["key"].startswith("node.kubernetes.io/")]


def test_the_agent_may_set_as_many_labels_as_a_model_node_has_models(agent: Api) -> None:
    names = [f"model-cache-ready-{i:027d}" for i in range(2000)] + [
        f"snapshot.larder.dev/{i:020x}" for i in range(1999)
    ]
    agent.patch(OWN, _metadata(labels=dict.fromkeys(names, "true")))
    agent.patch(OWN, _metadata(labels=dict.fromkeys(names)))


def test_the_agent_may_label_its_node_and_report_its_status(agent: Api, api: Api) -> None:
    assert len(agent.get(MODEL_NODES)["items"]) == 2
    assert agent.get(OWN)["metadata"]["name"] == "node-a"
    agent.patch(OWN, _metadata(labels={FETCHING: "true"}))
    files = {READY: "true", SNAPSHOT: "true", FETCHING: None}
    agent.patch(OWN, _metadata(labels=files, annotations={"larder.dev/x": "y"}))
    assert FETCHING not in api.get(OWN)["metadata"]["labels"]
    assert {READY: "true", SNAPSHOT: "true", "pool": "gpus"}.items() <= api.get(OWN)["metadata"]["labels"].items()
    agent.patch(OWN, _metadata(labels={READY: None, DRAINING: "true"}, annotations={"larder.dev/x": None}))
    agent.patch(OWN, _metadata(labels={SNAPSHOT: None, DRAINING: None}))
    assert not {READY, SNAPSHOT, DRAINING} & api.get(OWN)["metadata"]["labels"].keys()
    own = agent.get(OWN_MODELS)
    agent.call("PUT", f"{OWN_MODELS}/status", own | {"status": {"storeID": "mine", "protocol": 1}})
    assert api.get(OWN_MODELS)["status"]["storeID"] == "mine"


def test_an_agent_reports_metadata_only_of_its_own_node_and_within_bounds(agent: Api, api: Api) -> None:
    def status(**metadata: object) -> Json:
        return {"status": {"entries": [{"id": "m", "revision": "r", "metadata": {"identity": "i", **metadata}}]}}

    good = status(values={"modelType": "llama", "parameters": 7, "parametersFrom": "headers"})
    agent.call("PUT", f"{OWN_MODELS}/status", agent.get(OWN_MODELS) | good)
    assert api.get(OWN_MODELS)["status"]["entries"] == good["status"]["entries"]
    other = Try("PUT", f"{OTHER_MODELS}/status", agent.get(OTHER_MODELS) | good, JSON)
    assert _refused(agent, other)
    for bad in (
        status(reason="MetadataConflict"),
        status(message="x" * 513),
        status(values={"modelType": "x" * 97}),
        status(values={"parametersFrom": "hearsay"}),
        status(values={"parameters": -1}),
        status(values={"architectures": ["x"] * 5}),
        status(values={"components": [{"name": "n", "library": "l", "type": "t"}] * 13}),
    ):
        with pytest.raises(CallRefused) as refused:
            agent.call("PUT", f"{OWN_MODELS}/status", agent.get(OWN_MODELS) | bad)
        assert refused.value.status == UNPROCESSABLE


def test_the_agents_roles_grant_only_the_listed_verbs(agent: Api) -> None:
    review = {"spec": {"namespace": NAMESPACE}}
    status = agent.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)["status"]
    assert not status["incomplete"]
    everybody_s = {"authorization.k8s.io", "authentication.k8s.io"}
    own = [r for r in status["resourceRules"] if not everybody_s & set(r["apiGroups"])]
    assert sorted((*r["apiGroups"], *r["resources"], *r["verbs"]) for r in own) == [
        ("", "nodes", "get", "patch"),
        ("larder.dev", "modelnodes", "get", "list", "watch"),
        ("larder.dev", "modelnodes/status", "get", "update", "patch"),
    ]


def test_the_whole_status_of_another_node_cannot_be_replaced(agent: Api) -> None:
    read = agent.get(OTHER_MODELS)
    stolen = Try("PUT", f"{OTHER_MODELS}/status", read | {"status": {"storeID": "stolen"}}, JSON)
    assert _refused(agent, stolen)


def test_a_token_without_a_node_cannot_write_anything(agent: Api, api: Api, plane: ControlPlane) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    unbound = str(api.create(f"{accounts}/larder-agent/token", {"spec": {}})["status"]["token"])
    client = plane.api_with_token(unbound)
    try:
        assert _refused(client, Try("PATCH", OWN, _metadata(labels={READY: "true"})))
        assert _refused(client, Try("PATCH", f"{OWN_MODELS}/status", {"status": {"storeID": "stolen"}}))
    finally:
        client.close()
    assert agent.get(OWN)["metadata"]["name"] == "node-a"


def test_a_token_for_the_controller_is_refused_by_the_api_server(api: Api, pod: AgentPod, plane: ControlPlane) -> None:
    client = plane.api_with_token(agents.token(api, pod, ["larder"]))
    with pytest.raises(CallRefused, match="401"):
        client.get(MODEL_NODES)
    client.close()


def test_the_controller_may_read_secrets_only_in_named_namespaces(api: Api, plane: ControlPlane) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    token = str(api.create(f"{accounts}/larder-controller/token", {"spec": {}})["status"]["token"])
    client = plane.api_with_token(token)
    try:
        for namespace in ("default", "kube-system"):
            assert _refused(client, Try("GET", f"/api/v1/namespaces/{namespace}/secrets/any"))
        for path in ("/api/v1/secrets", "/api/v1/namespaces/team-a/secrets"):
            assert _refused(client, Try("GET", path))
        for namespace in ("team-a", "team-b", NAMESPACE):
            with pytest.raises(CallRefused, match="404"):
                client.get(f"/api/v1/namespaces/{namespace}/secrets/any")
        assert _refused(client, Try("PATCH", OWN, _metadata(labels={READY: "true"})))
    finally:
        client.close()
