import json
from pathlib import Path

import pytest

from rig.errors import StartFailed
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import Installation
from shared.json_object import Json
from tests.e2e.claims import CONFIG, bind_claim, write_llama

MODELS = "/apis/ome.io/v1beta1/namespaces/{}/basemodels"


@pytest.fixture
def namespace(site: Installation) -> str:
    """A tenant's namespace that enforces the pod security level `restricted`."""
    name = site.name("team")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "its account")
    return name


def _model(site: Installation, namespace: str, claim: str) -> str:
    """Declare the model at `models/llama` of a claim, and return the path of the object."""
    name = site.name("model")
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": name}}
    uri = f"pvc://{claim}/models/llama"
    site.api.create(MODELS.format(namespace), body | {"spec": {"storage": {"storageUri": uri}}})
    return f"{MODELS.format(namespace)}/{name}"


def _reason(site: Installation, model: str) -> str:
    conditions = site.api.get(model).get("status", {}).get("conditions", [])
    return next((str(c["reason"]) for c in conditions if c["type"] == "Ready"), "")


def test_a_model_on_a_claim_is_read_by_a_job_and_by_a_pod(site: Installation, namespace: str, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    model = _model(site, namespace, bind_claim(site, namespace, folder))
    site.until(lambda: _reason(site, model) == "PathNotFound", "the Job to find nothing")
    assert list(folder.iterdir()) == [], "no directory was created"

    write_llama(folder)
    (folder / "models" / "llama" / "pytorch_model.bin").write_bytes(bytes(4000))  # 1,000 weights of four bytes
    site.api.patch(model, {"metadata": {"annotations": {"larder.dev/refresh": "copied"}}})
    site.until(lambda: _reason(site, model) == "OnClaim", "the model to be read")
    found = site.api.get(model)
    assert found["status"]["state"] == "Ready"
    assert (found["spec"]["modelType"], found["spec"]["maxTokens"]) == ("llama", 128)
    assert found["spec"]["modelParameterSize"] == "1K"
    assert found["status"]["metadata"]["parametersEstimated"] is True

    web = _deployment(site, namespace, found["metadata"]["name"])
    pod = site.running(web, namespace)
    assert json.loads(site.sh(pod, "cat $MODEL_PATH/config.json")) == CONFIG
    site.remove_deployment(web, namespace)
    site.api.delete(model)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    site.until(lambda: not site.api.get(jobs)["items"], "the Jobs to go with their model")


def _deployment(site: Installation, namespace: str, model: str) -> str:
    """Run a `restricted` workload with a model, and return its name."""
    main: Json = {"name": "main", "image": SANDBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    main |= {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    user = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return site.deployment(model, namespace, containers=[main], securityContext=user)


def test_pods_are_refused_and_create_no_directory_until_the_model_was_read(
    site: Installation, namespace: str, tmp_path: Path
) -> None:
    """Kubelet creates a missing directory of a mount, so pods must wait; only a real node shows it."""
    quotas, sets = f"/api/v1/namespaces/{namespace}/resourcequotas", f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    site.api.create(quotas, {"metadata": {"name": "no-jobs"}, "spec": {"hard": {"count/jobs.batch": "0"}}})
    site.until(lambda: "hard" in site.api.get(f"{quotas}/no-jobs").get("status", {}), "the quota to hold")
    folder = tmp_path / "volume"
    model = _model(site, namespace, bind_claim(site, namespace, folder))
    site.until(lambda: _reason(site, model) == "JobRefused", "the Job to be refused")
    web = _deployment(site, namespace, model.rpartition("/")[2])

    def is_refused() -> bool:
        reported = [c for rs in site.api.get(sets)["items"] for c in rs["status"].get("conditions", [])]
        return any(c["type"] == "ReplicaFailure" and "JobRefused" in c["message"] for c in reported)

    site.until(is_refused, "the pod to be refused")
    assert list(folder.iterdir()) == [], "no directory was created"
    write_llama(folder)
    site.api.delete(f"{quotas}/no-jobs")
    site.until(lambda: _reason(site, model) == "OnClaim", "the model to be read")
    pod = site.running(web, namespace, within_s=300)
    assert json.loads(site.sh(pod, "cat $MODEL_PATH/config.json")) == CONFIG


def test_the_controller_cannot_create_other_jobs(site: Installation, namespace: str) -> None:
    container = {"name": "main", "image": "any", "command": ["sh"]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "other"}, "spec": spec}
    account = "system:serviceaccount:larder-system:larder-controller"
    with pytest.raises(StartFailed, match="larder-metadata-jobs"):
        site.cluster.kubectl(
            "create", "--filename=-", f"--namespace={namespace}", f"--as={account}", stdin=json.dumps(body)
        )
