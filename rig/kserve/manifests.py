"""The objects of KServe in a cluster: its own manifests, changed only as far as running outside it requires."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from shared.json_object import Json

NAMESPACE = "kserve"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_SERVING = "/apis/serving.kserve.io/v1alpha1"
_COLLECTIONS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterServingRuntime": f"{_SERVING}/clusterservingruntimes",
    "ClusterStorageContainer": f"{_SERVING}/clusterstoragecontainers",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "MutatingWebhookConfiguration": f"{_REGISTRATION}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{_REGISTRATION}/validatingwebhookconfigurations",
}


def collection_of(manifest: Json) -> str:
    """Return the API path to which an object is posted."""
    return _COLLECTIONS[manifest["kind"]]


def definitions(folder: Path) -> list[Json]:
    """Return the CRDs."""
    return [manifest for path in sorted((folder / "crd").rglob("*.yaml")) for manifest in _read(path)]


def configuration(folder: Path) -> Json:
    """Return KServe's ConfigMap, changed to use Deployments instead of Knative and no ingress."""
    (found,) = _read(folder / "configmap" / "inferenceservice.yaml")
    data = {key: text for key, text in found["data"].items() if key != "_example"}
    data["deploy"] = json.dumps({"defaultDeploymentMode": "Standard"})
    ingress = json.loads(data["ingress"]) | {"disableIngressCreation": True, "disableIstioVirtualHost": True}
    data["ingress"] = json.dumps(ingress)
    return found | {"metadata": {"name": found["metadata"]["name"], "namespace": NAMESPACE}, "data": data}


def defaults(folder: Path) -> list[Json]:
    """Return the runtime for scikit-learn models, and the download container."""
    runtime, container = (
        folder / "runtimes" / "kserve-sklearnserver.yaml",
        folder / "storagecontainers" / "default.yaml",
    )
    return [*_read(runtime), *_read(container)]


def webhooks(folder: Path, url: str, ca_pem: bytes) -> list[Json]:
    """Return the webhook configurations under their original names, for a program outside the cluster."""
    found = list(_read(folder / "webhook" / "manifests.yaml"))
    for configured in found:
        for webhook in configured["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": base64.b64encode(ca_pem).decode()}
    return found


def _read(path: Path) -> Iterator[Json]:
    with path.open() as file:  # megabytes: libyaml takes one second, Python ten
        yield from (document for document in yaml.load_all(file, Loader=yaml.CSafeLoader) if document)
