"""The manifests of KServe's model cache proposal, from the declaration to the pods of a service.

They are changed only where an API server refuses them: comments, a capital letter in a name, a non-string annotation.
"""

import json
from typing import Any

import pytest
import yaml

from rig.larder.site import Site
from rig.pods import kserve_pod
from tests.integration.system.claims import CLAIMS, NAMESPACE, PODS
from tests.integration.system.sites import KSERVE_SERVICES

GROUP = "/apis/serving.kserve.io/v1alpha1"
MANIFESTS = """
apiVersion: serving.kserve.io/v1alpha1
kind: ModelCacheNodeGroup
metadata:
  name: gpu-1
spec:
  storageLimit: 500Gi
  nodeSelector:
    nvidia.com/gpu.product: NVIDIA-xxx
---
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterModelCache
metadata:
  name: llama-3-70b
spec:
  storageUri: 's3://llm/llama-3-70b/'
  modelSize: 140Gi
  nodeGroup: gpu-1
  pvSpec:
  pvcSpec:
"""
OF_A_NAMESPACE = """
apiVersion: serving.kserve.io/v1alpha1
kind: ModelCache
metadata:
  name: llama-3-70b
spec:
  storageUri: 's3://llm/llama-3-70b'
  modelSize: 140Gi
  pvSpec:
  pvcSpec:
"""
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llama-3
  annotations:
    serving.kserve.io/enable-model-cache: "true"
spec:
  predictor:
    storageUri: s3://llm/llama-3-70b
"""
EVERYBODY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": ["arn:aws:s3:::llm", "arn:aws:s3:::llm/*"],
        }
    ],
}


@pytest.fixture(scope="module")
def bucket(site: Site) -> None:
    """The bucket of the manifests; it is public, because they name no credentials."""
    folder = site.folder / "llama"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model.safetensors").write_bytes(bytes(1000))
    site.s3.put_folder("llm", "llama-3-70b", folder)
    site.s3.client().put_bucket_policy(Bucket="llm", Policy=json.dumps(EVERYBODY))


def parsed(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.usefixtures("bucket", "kserve")
def test_the_cluster_model_cache_of_the_proposal_serves_a_kserve_pod(site: Site) -> None:
    group, cache = parsed(MANIFESTS)
    site.api.create(f"{GROUP}/modelcachenodegroups", group)
    site.api.create(f"{GROUP}/clustermodelcaches", cache)
    site.until(
        lambda: site.ready_condition("ClusterModelCache", "llama-3-70b").get("reason") == "NoNodes", "no nodes so far"
    )
    site.label("a", {"nvidia.com/gpu.product": "NVIDIA-xxx"})
    status = site.wait_ready("ClusterModelCache", "llama-3-70b")
    assert (status["storageStatus"], status["nodeStatus"]) == ("Ready", {"a": "ready"})
    assert site.labels("a")["model-cache-ready-llama-3-70b"] == "true"

    (service,) = parsed(SERVICE)
    site.api.create(KSERVE_SERVICES, service)
    pod = site.pod(kserve_pod("llama-3-predictor", "s3://llm/llama-3-70b"))
    assert "initContainers" not in pod["spec"]
    (volume,) = pod["spec"]["volumes"]
    assert (volume["name"], volume["persistentVolumeClaim"]["claimName"]) == ("kserve-pvc-source", "llama-3-70b")
    site.until(lambda: site.pod_node("llama-3-predictor") == "a", "the pod on the node with the model")
    claim = site.api.get("/api/v1/namespaces/default/persistentvolumeclaims/llama-3-70b")
    assert claim["spec"]["volumeName"] == "llama-3-70b-default"
    site.delete_pod("llama-3-predictor")
    site.api.delete(f"{KSERVE_SERVICES}/llama-3")
    site.delete_unused("ClusterModelCache", "llama-3-70b")
    site.until(lambda: site.is_gone("ClusterModelCache", "llama-3-70b"), "the cache to be gone")
    assert "model-cache-ready-llama-3-70b" not in site.labels("a")
    site.delete_unused("ModelCacheNodeGroup", "gpu-1")


@pytest.mark.usefixtures("bucket", "claims_namespace")
def test_the_model_cache_of_the_proposal_gets_a_claim_sized_by_its_model(site: Site) -> None:
    (cache,) = parsed(OF_A_NAMESPACE)
    path = f"{GROUP}/namespaces/{NAMESPACE}/modelcaches"
    site.api.create(path, cache)

    def state() -> str:
        return str(site.api.get(f"{path}/llama-3-70b").get("status", {}).get("storageStatus", ""))

    site.until(lambda: state() == "pvcCreated", "the claim")
    claim = site.api.get(f"{CLAIMS}/llama-3-70b")
    assert claim["spec"]["resources"]["requests"]["storage"] == str(154 * 2**30), "modelSize plus a tenth"
    site.api.delete(f"{path}/llama-3-70b")
    site.until(lambda: not site.api.answers(f"{path}/llama-3-70b"), "the cache to be gone")
    site.until(lambda: not site.api.answers(f"{CLAIMS}/llama-3-70b"), "its claim to be gone")
    site.until(
        lambda: not any(map(mounts_the_claim, site.api.get(PODS)["items"])), "the pod of its download to be gone"
    )


def mounts_the_claim(pod: dict[str, Any]) -> bool:
    """Return whether a pod is one of the download; Jobs of earlier tests may still run in this namespace."""
    claims = (volume.get("persistentVolumeClaim", {}) for volume in pod["spec"].get("volumes", []))
    return any(claim.get("claimName") == "llama-3-70b" for claim in claims)
