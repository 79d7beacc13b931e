"""The manifests of OME's OEP-0004, unchanged: models that are already on claims."""

from collections.abc import Iterator

import pytest
import yaml

from rig.errors import CallRefused
from rig.larder.site import Site
from shared.api.core import claims_in, jobs_in, pods_in
from shared.json_object import Json
from shared.metadata.reading.termination_message import Reading
from tests.integration.system.claims import LLAMA, VOLUMES, admitted, hand_in

CLAIM = "model-storage-pvc"
OF_A_NAMESPACE = """
apiVersion: ome.io/v1beta1
kind: BaseModel
metadata:
  name: llama2-7b-pvc
  namespace: models
spec:
  storage:
    storageUri: "pvc://model-storage-pvc/models/llama2-7b"
  modelFormat:
    name: llama
"""
OF_THE_CLUSTER = """
apiVersion: ome.io/v1beta1
kind: ClusterBaseModel
metadata:
  name: llama2-7b-shared
spec:
  storage:
    storageUri: "pvc://model-storage/model-storage-pvc/models/llama2-7b"
    # Format: pvc://{namespace}/{pvc-name}/{sub-path}
  modelFormat:
    name: llama
"""


@pytest.fixture
def namespace(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with the claim of the manifests, bound to a volume."""
    name = str(request.param)
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the account")
    spec: Json = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    claim = spec | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    site.api.create(claims_in(name), {"metadata": {"name": CLAIM}, "spec": claim})
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}}
    reference = {"claimRef": {"namespace": name, "name": CLAIM}}
    site.api.create(VOLUMES, {"metadata": {"name": name}, "spec": spec | volume | reference})
    yield name
    site.api.delete(f"/api/v1/namespaces/{name}")
    site.api.delete(f"{VOLUMES}/{name}")


@pytest.mark.parametrize(
    ("manifest", "collection", "namespace"),
    [
        (OF_A_NAMESPACE, "/apis/ome.io/v1beta1/namespaces/models/basemodels", "models"),
        (OF_THE_CLUSTER, "/apis/ome.io/v1beta1/clusterbasemodels", "model-storage"),
    ],
    ids=["BaseModel", "ClusterBaseModel"],
    indirect=["namespace"],
)
def test_a_model_of_the_oep_is_read_on_its_claim_and_mounted(
    manifest: str, collection: str, namespace: str, site: Site
) -> None:
    model = site.api.create(collection, yaml.safe_load(manifest))
    name = model["metadata"]["name"]
    site.until(lambda: bool(site.api.get(jobs_in(namespace))["items"]), "the Job that reads the metadata")
    (job,) = site.api.get(jobs_in(namespace))["items"]
    hand_in(site, job, Reading(metadata=LLAMA))
    path = f"{collection}/{name}"
    site.until(lambda: site.api.get(path)["status"].get("state") == "Ready", "the model to be Ready")
    spec = site.api.get(path)["spec"]
    assert (spec["modelArchitecture"], spec["modelParameterSize"]) == ("LlamaForCausalLM", "7B")
    assert spec["modelFormat"] == {"name": "llama"}

    made = admitted(site, name, namespace)
    pod = made["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": CLAIM, "readOnly": True}
    (mount, *_) = pod["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount["subPath"]) == ("/opt/ml/model", "models/llama2-7b")
    assert "nodeSelector" not in pod
    assert all(name not in label for node in ("a", "b", "c") for label in site.labels(node))
    site.api.delete(f"{pods_in(namespace)}/{made['metadata']['name']}", grace_s=0)
    site.until(lambda: is_deleted(site, path), "the deletion to be admitted")


def is_deleted(site: Site, path: str) -> bool:
    """Delete a model; return False while admission still sees its pod."""
    try:
        site.api.delete(path)
    except CallRefused as refusal:
        if "is used by" not in str(refusal):
            raise
        return False
    return True
