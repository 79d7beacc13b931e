"""The objects that the demo creates, with their names and URIs."""

import base64
import json

from rig.pods import kserve_pod, plain_pod
from shared.devices.annotation import ANNOTATION
from shared.json_object import Json

GPU = {"nvidia.com/gpu.product": "NVIDIA-H100"}
NODES: dict[str, dict[str, str]] = {"gpu-a": GPU, "gpu-b": GPU, "cpu-c": {}}
BUCKET = "llm"
CACHE_URI = f"s3://{BUCKET}/llama-3-tiny"
REPOSITORY = "larder-demo/llama-2-tiny"
GROUP, CACHE, BASE_MODEL, SECRET = "gpu-1", "llama-3-tiny", "llama2-tiny-shared", "s3-reader"


def secret(access_key: str, secret_key: str, namespace: str) -> Json:
    """Return the Secret with the keys of the bucket; the label allows Larder to use it."""
    values = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace, "labels": {"larder.dev/credentials": "true"}},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def advertised(node: str) -> Json:
    """Return the patch that an agent would apply to a Node with two pairs of linked GPUs."""
    cards = [f"resource/group/gpugrp0/{card // 2}/gpu/{card}/cards" for card in range(4)]
    return {
        "metadata": {"annotations": {ANNOTATION: json.dumps({"name": node, "allocatable": dict.fromkeys(cards, 1)})}}
    }


def objects() -> list[Json]:
    """Return the group, the cache and the base model."""
    return [
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ModelCacheNodeGroup",
            "metadata": {"name": GROUP},
            "spec": {"storageLimit": "500Mi", "nodeSelector": GPU, "bandwidthLimit": "12Mi"},
        },
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ClusterModelCache",
            "metadata": {"name": CACHE},
            "spec": {"storageUri": CACHE_URI, "nodeGroup": GROUP, "credentialsSecret": SECRET},
        },
        {
            "apiVersion": "ome.io/v1beta1",
            "kind": "ClusterBaseModel",
            "metadata": {"name": BASE_MODEL},
            "spec": {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": f"hf://{REPOSITORY}"}},
        },
    ]


def pods() -> list[Json]:
    """Return a pod as KServe creates it, and one that names the base model."""
    served = kserve_pod("llama-3-predictor", f"{CACHE_URI}/")
    return [served, plain_pod("llama2-server", {"ome.io/base-model-name": BASE_MODEL})]


def pod_with_linked_gpus(name: str, count: int) -> Json:
    """Return a pod that requests GPUs that are linked to each other."""
    cards = [f"resource/group/gpugrp0/A/gpu/{card}/cards" for card in range(count)]
    return plain_pod(
        name, {ANNOTATION: json.dumps({"runningcontainer": {"main": {"requests": dict.fromkeys(cards, 1)}}})}
    )
