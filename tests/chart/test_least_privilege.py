"""What the token of an agent can do on a real API server: what must fail is tried."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rig import agents
from rig.agents import AgentPod
from rig.api import MERGE, Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import Json
from rig.processes import wait_until
from tests.chart.conftest import NAMESPACE

JSON = "application/json"
NODES, MODEL_NODES = "/api/v1/nodes", "/apis/larder.dev/v1alpha1/modelnodes"
OWN, OTHER = f"{NODES}/node-a", f"{NODES}/node-b"
OWN_MODELS, OTHER_MODELS = f"{MODEL_NODES}/node-a", f"{MODEL_NODES}/node-b"
MODELS = "/apis/ome.io/v1beta1"
CACHES = "/apis/serving.kserve.io/v1alpha1"
READY, SNAPSHOT = "model-cache-ready-m", "snapshot.larder.dev/0123456789abcdef0123"
FORBIDDEN = 403


def _metadata(**fields: object) -> Json:
    return {"metadata": fields}


@dataclass(frozen=True)
class Try:
    """One request that an agent of node-a makes."""

    method: str
    path: str
    body: Json | None = None
    kind: str = MERGE

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.body or ''}"


def _post(path: str, body: Json) -> Try:
    return Try("POST", path, body, JSON)


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
    # other nodes
    Try("GET", NODES),
    Try("PATCH", OTHER, _metadata(labels={READY: "true"})),
    Try("PATCH", OTHER, _metadata(labels={SNAPSHOT: "true"})),
    Try("PATCH", OTHER, _metadata(annotations={"larder.dev/x": "y"})),
    _post(NODES, {"metadata": {"name": "node-c"}}),
    Try("DELETE", OTHER),
    # the own node: anything but our labels and annotations
    Try("DELETE", OWN),
    Try("PUT", OWN, {"metadata": {"name": "node-a"}}, JSON),
    Try("PATCH", OWN, _metadata(labels={"x": "y"})),
    Try("PATCH", OWN, _metadata(labels={"node-role.kubernetes.io/control-plane": ""})),
    Try("PATCH", OWN, _metadata(labels={"pool": "other"})),
    Try("PATCH", OWN, _metadata(labels={"pool": None})),
    Try("PATCH", OWN, _metadata(labels={READY: "true", "x": "y"})),
    Try("PATCH", OWN, _metadata(labels={"model-cache-ready": "true"})),
    Try("PATCH", OWN, _metadata(annotations={"x": "y"})),
    Try("PATCH", OWN, _metadata(annotations={"kept": None})),
    Try("PATCH", OWN, _metadata(finalizers=["larder.dev/x"])),
    Try("PATCH", OWN, _metadata(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}])),
    Try("PATCH", OWN, {"spec": {"unschedulable": True}}),
    Try("PATCH", OWN, {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}),
    Try("PATCH", f"{OWN}/status", {"status": {"capacity": {"cpu": "999"}}}),
    Try("GET", f"{OWN}/proxy/pods"),
    # ModelNodes: anything but the own status
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
    return agents.create_agent_pod(api, "node-a", probe_port=1, service_account="larder-agent", namespace=NAMESPACE)


@pytest.fixture(scope="module")
def agent(api: Api, pod: AgentPod, plane: ControlPlane) -> Iterator[Api]:
    """A client with the token that the kubelet would put into that pod."""
    found = plane.api_with_token(agents.token(api, pod))
    wait_until(lambda: _refused(found, Try("PATCH", OTHER, _metadata(labels={READY: "x"}))), 20, "policies in force")
    yield found
    found.close()


def _refused(client: Api, attempt: Try) -> bool:
    """Return whether the server forbids it; any other refusal, for instance of a wrong body, proves nothing."""
    try:
        client.call(attempt.method, attempt.path, attempt.body, attempt.kind)
    except CallRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return True
    return False


@pytest.mark.parametrize("attempt", REFUSED, ids=str)
def test_what_the_agent_must_not_do(attempt: Try, agent: Api, api: Api) -> None:
    before = [api.get(path) for path in (OWN, OTHER, OWN_MODELS, OTHER_MODELS)]
    assert _refused(agent, attempt)
    after = [api.get(path) for path in (OWN, OTHER, OWN_MODELS, OTHER_MODELS)]
    assert [_wanted(o) for o in before] == [_wanted(o) for o in after]


def _wanted(found: Json) -> Json:
    """What nobody but its writer may change; the node's controllers write to its status and taints meanwhile."""
    kept = {k: found["metadata"].get(k) for k in ("uid", "labels", "annotations", "finalizers", "ownerReferences")}
    return kept | {"spec": found["spec"] if found.get("kind") == "ModelNode" else None}


def test_what_the_agent_must_do(agent: Api, api: Api) -> None:
    assert len(agent.get(MODEL_NODES)["items"]) == 2
    assert agent.get(OWN)["metadata"]["name"] == "node-a"
    agent.patch(OWN, _metadata(labels={READY: "true", SNAPSHOT: "true"}, annotations={"larder.dev/x": "y"}))
    assert {READY: "true", SNAPSHOT: "true", "pool": "gpus"}.items() <= api.get(OWN)["metadata"]["labels"].items()
    agent.patch(OWN, _metadata(labels={READY: None, SNAPSHOT: None}, annotations={"larder.dev/x": None}))
    assert READY not in api.get(OWN)["metadata"]["labels"]
    own = agent.get(OWN_MODELS)
    agent.call("PUT", f"{OWN_MODELS}/status", own | {"status": {"storeID": "mine", "protocol": 1}})
    assert api.get(OWN_MODELS)["status"]["storeID"] == "mine"


def test_the_agent_s_roles_say_nothing_more(agent: Api) -> None:
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


def test_a_token_that_names_no_node_can_write_nothing(agent: Api, api: Api, plane: ControlPlane) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    unbound = str(api.create(f"{accounts}/larder-agent/token", {"spec": {}})["status"]["token"])
    client = plane.api_with_token(unbound)
    try:
        assert _refused(client, Try("PATCH", OWN, _metadata(labels={READY: "true"})))
        assert _refused(client, Try("PATCH", f"{OWN_MODELS}/status", {"status": {"storeID": "stolen"}}))
    finally:
        client.close()
    assert agent.get(OWN)["metadata"]["name"] == "node-a"


def test_a_token_for_the_controller_does_not_open_the_api_server(api: Api, pod: AgentPod, plane: ControlPlane) -> None:
    client = plane.api_with_token(agents.token(api, pod, ["larder"]))
    with pytest.raises(CallRefused, match="401"):
        client.get(MODEL_NODES)
    client.close()


def test_the_controller_reads_secrets_in_named_namespaces_alone(api: Api, plane: ControlPlane) -> None:
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
