from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from rig.api import Api
from rig.demo.parts import SECRET, secret
from rig.errors import CallRefused
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import NAMESPACE, Installation
from shared.json_object import Json
from tests.e2e.debuggers import add_debugger
from tests.e2e.fingerprints import fingerprint

ELSEWHERE = "elsewhere"
_TOKEN = "print(open('/var/run/secrets/kubernetes.io/serviceaccount/token').read())"
_NODES, _MODEL_NODES = "/api/v1/nodes", "/apis/larder.dev/v1alpha1/modelnodes"
_READY = {"metadata": {"labels": {"model-cache-ready-fake": "true"}}}


@contextmanager
def as_agent(site: Installation) -> Iterator[Api]:
    """A client with the token mounted in the agent's pod on node one."""
    agent = site.ready_agent("one")
    argv = ["/opt/venv/bin/python", "-c", _TOKEN]
    token = site.cluster.exec(NAMESPACE, agent["metadata"]["name"], argv, "agent").strip()
    client = site.cluster.plane.api_with_token(token)
    yield client
    client.close()


@pytest.fixture
def elsewhere(site: Installation) -> Iterator[str]:
    """A Node without a machine, and its ModelNode, as targets for a stolen token."""
    site.api.create(_NODES, {"metadata": {"name": ELSEWHERE}})
    site.until(lambda: site.api.answers(f"{_MODEL_NODES}/{ELSEWHERE}"), "its ModelNode")
    yield ELSEWHERE
    site.api.delete(f"{_NODES}/{ELSEWHERE}")
    site.wait_rolled_out()


def _refused(client: Api, method: str, path: str, body: object = None) -> bool:
    return _answer(client, method, path, body) == httpx.codes.FORBIDDEN


def _answer(client: Api, method: str, path: str, body: object) -> int:
    """Return the status of the response to a request."""
    try:
        client.call(method, path, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
    except CallRefused as refusal:
        return refusal.status
    return httpx.codes.OK


def _refused_update(site: Installation, client: Api, path: str, part: str, **changes: Json) -> bool:
    """Return whether an update of the current object is refused; one of an older version conflicts before that."""
    answers: list[int] = []

    def is_decided() -> bool:
        answers.append(_answer(client, "PUT", f"{path}{part}", site.api.get(path) | changes))
        return answers[-1] != httpx.codes.CONFLICT

    site.until(is_decided, f"an answer other than a conflict from {path}")
    return answers[-1] == httpx.codes.FORBIDDEN


def test_the_token_of_an_agent_has_rights_only_on_its_own_node(site: Installation, elsewhere: str) -> None:
    emptied = site.get("ModelNode", "one")["spec"] | {"entries": []}
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    tries: list[tuple[str, str, object]] = [
        ("GET", "/api/v1/secrets", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-tls", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps", None),
        ("GET", "/api/v1/pods", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", None),
        ("GET", "/apis/ome.io/v1beta1/clusterbasemodels", None),
        ("GET", "/apis/serving.kserve.io/v1alpha1/clustermodelcaches", None),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/larder-controller/token", {"spec": {}}),
        ("DELETE", f"{_NODES}/{elsewhere}", None),
        ("DELETE", f"{_MODEL_NODES}/{elsewhere}", None),
        ("DELETE", f"{_MODEL_NODES}/one", None),
        ("PATCH", f"{_NODES}/{elsewhere}", _READY),
        ("PATCH", f"{_NODES}/one", {"metadata": {"labels": {"gpu": "no"}}}),
        ("PATCH", f"{_NODES}/one", {"spec": {"unschedulable": True}}),
        ("PATCH", f"{_NODES}/one/status", {"status": {"capacity": {"x.com/y": "1"}}}),
    ]
    with as_agent(site) as agent:
        assert [(method, path) for method, path, body in tries if not _refused(agent, method, path, body)] == []
        assert _refused_update(site, agent, f"{_MODEL_NODES}/{elsewhere}", "/status", status={"storeID": "stolen"})
        assert _refused_update(site, agent, f"{_MODEL_NODES}/one", "", spec=emptied)
        assert agent.patch(f"{_NODES}/one", _READY)["metadata"]["labels"]["model-cache-ready-fake"] == "true"
        agent.patch(f"{_NODES}/one", {"metadata": {"labels": {"model-cache-ready-fake": None}}})
        assert agent.get(f"{_MODEL_NODES}/one")


def test_a_private_bucket_is_fetched_with_a_secret_that_the_agent_cannot_read(site: Installation) -> None:
    secrets, uri = f"/api/v1/namespaces/{NAMESPACE}/secrets", site.upload()
    denied = site.cache(uri)
    site.wait_reason("ClusterModelCache", denied, "AuthDenied")
    site.api.create(secrets, secret(site.s3.access_key, site.s3.secret_key, NAMESPACE))
    with as_agent(site) as agent:
        assert _refused(agent, "GET", f"{secrets}/{SECRET}")
    cache = site.cache(uri, credentialsSecret=SECRET)
    revision = site.wait_ready("ClusterModelCache", cache)["servingRevision"]
    assert site.snapshot("one", cache, revision).joinpath("config.json").exists()
    reported = [site.get("ModelNode", "one"), site.get("ClusterModelCache", cache)]
    logs = site.cluster.kubectl("logs", f"--namespace={NAMESPACE}", "--selector=app.kubernetes.io/part-of=larder")
    assert site.s3.secret_key not in f"{reported}{logs}"
    site.delete("ClusterModelCache", denied)


@pytest.mark.parametrize("mount", ["claim", "hostPath"])
def test_a_tenant_cannot_change_bytes_owner_or_mode_of_a_model(site: Installation, mount: str) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    snapshot = site.snapshot("one", model, site.wait_ready("ClusterBaseModel", model)["servingRevision"])
    before = fingerprint(snapshot)
    assert any(path.endswith("config.json") for path in before)
    root = {"fsGroup": 2000, "runAsUser": 0}
    web = site.deployment(model, annotations={"larder.dev/mount": mount}, securityContext=root)
    pod = site.running(web)
    for attempt in ("chown -R 7 $MODEL_PATH", "chmod -R 777 $MODEL_PATH", "mount -o remount,rw $MODEL_PATH"):
        assert "0" not in site.sh(pod, f"{attempt} 2>/dev/null && echo 0; true")
    debugger = add_debugger(site, pod, "larder-model")
    if debugger:
        assert "0" not in site.sh(pod, "echo x >>/stolen/config.json && echo 0; true", debugger)
    assert fingerprint(snapshot) == before


def test_a_pod_that_mounts_the_store_itself_to_write_is_refused(site: Installation) -> None:
    volume = {"name": "s", "hostPath": {"path": "/var/lib/larder"}}
    mount = {"name": "s", "mountPath": "/s"}
    container = {"name": "main", "image": SANDBOX_IMAGE, "volumeMounts": [mount]}
    pod = {"metadata": {"name": "thief"}, "spec": {"containers": [container], "volumes": [volume]}}
    with pytest.raises(CallRefused, match="larder"):
        site.api.create("/api/v1/namespaces/default/pods", pod)


def test_the_controller_runs_in_a_restricted_namespace(site: Installation) -> None:
    levels = {"pod-security.kubernetes.io/enforce": "restricted"}
    site.api.ensure("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": levels}})
    (pod, *_) = site.pods("app.kubernetes.io/component=controller")
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "serviceAccountName")}
    spec |= {"serviceAccount": "default", "automountServiceAccountToken": False}
    spec["volumes"] = [v for v in spec["volumes"] if not v["name"].startswith("kube-api-access")]
    for container in spec["containers"]:
        mounts = container["volumeMounts"]
        container["volumeMounts"] = [m for m in mounts if not m["name"].startswith("kube-api-access")]
    site.until(lambda: site.api.answers("/api/v1/namespaces/strict/serviceaccounts/default"), "its service account")
    site.api.create("/api/v1/namespaces/strict/pods?dryRun=All", {"metadata": {"name": "controller"}, "spec": spec})
    body = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    with pytest.raises(CallRefused, match="restricted"):
        site.api.create("/api/v1/namespaces/strict/pods?dryRun=All", body)


def test_an_idle_agent_uses_less_than_5_millicores_and_80_megabytes(site: Installation) -> None:
    def usage() -> Json:
        wanted = site.ready_agent("one")["metadata"]["uid"]
        summary = site.api.get("/api/v1/nodes/one/proxy/stats/summary")
        return next((p["containers"][0] for p in summary["pods"] if p["podRef"]["uid"] == wanted), {})

    used: list[Json] = []

    def idle() -> bool:
        used[:] = [usage()]
        return int(used[0].get("cpu", {}).get("usageNanoCores", 10**9)) < 5_000_000

    site.until(idle, "the agent to need less than 5 millicores")
    assert used[0]["memory"]["rssBytes"] < 80 * 10**6
