"""InferenceServices with real pods, whose server answers with the files of the model."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.errors import CallRefused, StartFailed
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.images import AGENT
from rig.node.installation import Installation
from shared.json_object import Json
from tests.e2e.claims import CONFIG, bind_claim, write_llama

KIND = "InferenceService"
SERVICES = "/apis/ome.io/v1beta1/namespaces/default/inferenceservices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
PORT = 8080
_GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode(), end='')"


@dataclass(frozen=True)
class Caller:
    """A pod without a model, from which services are called."""

    site: Installation
    pod: str

    def get(self, url: str) -> str:
        """Return the response of a URL, or an empty string if there is none."""
        try:
            return self.site.cluster.exec("default", self.pod, ["/opt/venv/bin/python", "-c", _GET, url])
        except StartFailed:
            return ""


@pytest.fixture
def caller(site: Installation) -> Caller:
    """A pod with an HTTP client and without a model."""
    main = {"name": "main", "image": AGENT, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    pod = site.pod(site.name("caller"), {"terminationGracePeriodSeconds": 0, "containers": [main]})
    return Caller(site, pod["metadata"]["name"])


def _serve(site: Installation, **spec: object) -> str:
    """Declare a service and return its name; a second container has no model."""
    server: Json = {"name": "server", "image": SANDBOX_IMAGE, "imagePullPolicy": "Never"}
    side = server | {"name": "side", "command": ["sleep", "infinity"]}
    probe = {"tcpSocket": {"port": PORT}, "periodSeconds": 1}
    server |= {"command": ["sh", "-c", f"exec httpd -f -p {PORT} -h $MODEL_PATH"], "readinessProbe": probe}
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [server, side]}}
    body = {"apiVersion": "ome.io/v1beta1", "kind": KIND, "metadata": {"name": site.name("svc")}}
    body |= {"spec": {"template": template, "port": PORT, **spec}}
    made = site.run("/apis/ome.io/v1beta1/namespaces/{}/inferenceservices", body, label="larder.dev/inference-service")
    return str(made["metadata"]["name"])


def _wait_reason(site: Installation, name: str, reason: str) -> str:
    return site.wait_reason(KIND, name, reason)


def _pods(site: Installation, name: str) -> list[Json]:
    return site.pods(f"larder.dev/inference-service={name}", "default")


def _is_scaled(site: Installation, name: str) -> bool:
    found = site.api.get(f"{SCALERS}/{name}").get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("AbleToScale", "True") for c in found)


def _remove(site: Installation, name: str) -> None:
    site.delete(KIND, name)
    site.until(lambda: not _pods(site, name), "its pods to be gone")


def test_a_service_serves_a_model_on_nodes_and_follows_its_revisions(site: Installation, caller: Caller) -> None:
    model = site.name("model")
    name = _serve(site, model={"name": model}, replicas={"min": 1, "max": 2})
    assert "create it" in _wait_reason(site, name, "ModelNotFound")
    assert _pods(site, name) == []
    uri = site.push(files={"config.json": json.dumps(CONFIG).encode(), "answer.txt": b"one"})
    site.base_model(uri, name=model, nodeSelector={"gpu": "yes"})
    before = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    assert _wait_reason(site, name, "Serving") == "1 of 1 pods are ready"
    status = site.status(KIND, name)
    assert (status["url"], status["replicas"], status["readyReplicas"]) == (f"http://{name}.default.svc:{PORT}", 1, 1)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"Ready": "True", "ModelReady": "True"}
    site.until(lambda: caller.get(f"{status['url']}/answer.txt") == "one", "an answer through the Service")
    (pod,) = _pods(site, name)
    with pytest.raises(StartFailed, match="Read-only file system"):
        site.sh(pod, "touch $MODEL_PATH/new", "server")
    assert site.sh(pod, "echo -$MODEL_PATH-", "side").strip() == "--"
    scaler = site.api.get(f"{SCALERS}/{name}")
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 2)

    site.push(files={"config.json": json.dumps(CONFIG).encode(), "answer.txt": b"two"}, repo=uri.removeprefix("hf://"))
    body = {"metadata": {"annotations": {"larder.dev/refresh": "again"}}}
    site.api.patch(f"/apis/ome.io/v1beta1/clusterbasemodels/{model}", body)
    site.until(lambda: site.status(KIND, name)["servingRevision"] != before, "the new revision")
    site.until(lambda: [p["metadata"]["uid"] for p in _pods(site, name)] not in ([], [pod["metadata"]["uid"]])
               and len(_pods(site, name)) == 1, "a new pod in the old one's place")  # fmt: skip
    site.until(lambda: caller.get(f"{status['url']}/answer.txt") == "two", "the new answer")
    _wait_reason(site, name, "Serving")
    site.until(lambda: _is_scaled(site, name), "the autoscaler to find the Deployment")

    users = f"is used by 1 InferenceService: default/{name} and 1 pod: default/{name}-"
    site.until(lambda: users in site.deletion_refusal("ClusterBaseModel", model), "admission to see the new pod alone")
    with pytest.raises(CallRefused, match=users):
        site.delete("ClusterBaseModel", model)
    _remove(site, name)
    site.delete_unused("ClusterBaseModel", model)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to be gone")


def test_a_service_serves_a_model_on_a_claim_to_one_pod_at_a_time(
    site: Installation, caller: Caller, tmp_path: Path
) -> None:
    folder, model = tmp_path / "volume", site.name("model")
    claim = bind_claim(site, "default", folder, "ReadWriteOncePod")
    write_llama(folder)
    name = _serve(site, storageUri=f"pvc://{claim}/models/llama")
    _wait_reason(site, name, "ModelNotFound")
    site.create("BaseModel", model, {"storage": {"storageUri": f"pvc://{claim}/models/llama"}})
    _wait_reason(site, name, "Serving")
    url = f"{site.status(KIND, name)['url']}/config.json"
    site.until(lambda: bool(caller.get(url)), "an answer through the Service")
    assert json.loads(caller.get(url)) == CONFIG
    (pod,) = _pods(site, name)
    assert "nodeSelector" not in pod["spec"]
    with pytest.raises(StartFailed, match="Read-only file system"):
        site.sh(pod, "touch $MODEL_PATH/new", "server")

    site.api.patch(f"{SERVICES}/{name}", {"spec": {"replicas": {"min": 2}}})
    held = f"PVC {claim} is ReadWriteOncePod and in use by pod {pod['metadata']['name']} on node one"
    assert held in _wait_reason(site, name, "ClaimInUse")
    assert held in site.wait_reason("BaseModel", model, "ClaimInUse")
    site.api.patch(f"{SERVICES}/{name}", {"spec": {"replicas": {"min": 1}}})
    _wait_reason(site, name, "Serving")
    site.wait_reason("BaseModel", model, "OnClaim")

    with pytest.raises(CallRefused, match=f"InferenceService: default/{name}"):
        site.delete("BaseModel", model)
    _remove(site, name)
    site.delete_unused("BaseModel", model)
    site.until(lambda: site.is_gone("BaseModel", model), "the model to be gone")
