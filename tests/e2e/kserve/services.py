"""InferenceServices of KServe, and their pods."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.demo.parts import SECRET
from rig.larder.site import Site
from shared.json_object import Json

ENABLE = "serving.kserve.io/enable-model-cache"
SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MODEL = {"modelFormat": {"name": "sklearn"}}
CUSTOM = {"name": "kserve-container", "image": "server:none"}


@dataclass(frozen=True)
class KServeSite:
    """Larder and KServe on one cluster."""

    larder: Site
    kubectl: Path

    def cache(self, uri: str, **spec: Any) -> str:
        """Return the name of a cache of a URI that pods can get."""
        if uri.startswith("s3://"):
            spec["credentialsSecret"] = SECRET
        name = self.larder.cache(uri, **spec)
        self.larder.wait_ready("ClusterModelCache", name)
        return name

    def service(self, predictor: Json, annotations: Mapping[str, str] | None = None, **spec: Any) -> str:
        """Create an InferenceService that asks for the cache and return its name."""
        name = self.larder.name("svc")
        metadata = {"name": name, "annotations": {ENABLE: "true"} | dict(annotations or {})}
        body = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata}
        self.larder.api.create(SERVICES, body | {"spec": {"predictor": {"minReplicas": 1, **predictor}, **spec}})
        return name

    def pod(self, service: str, component: str = "predictor") -> Json:
        """Return the pod of a service's component, as it was admitted."""
        found: list[Json] = []

        def is_there() -> bool:
            chosen = f"labelSelector=serving.kserve.io/inferenceservice={service},component={component}"
            found[:] = self.larder.api.get(f"{PODS}?{chosen}")["items"]
            return bool(found)

        self.larder.until(is_there, f"the {component} of {service}; its Deployment: {self._why(service, component)}")
        return found[0]

    def placed(self, pod: Json) -> str:
        """Return the node that the scheduler chose for a pod."""
        name = pod["metadata"]["name"]
        self.larder.until(lambda: bool(self.larder.pod_node(name)), f"{name} to be placed")
        return self.larder.pod_node(name)

    def served(self, predictor: Json, annotations: Mapping[str, str] | None = None) -> Json:
        """Return the pod of a new service."""
        return self.pod(self.service(predictor, annotations))

    def remove(self, service: str) -> None:
        """Delete a service and wait until its pods are gone."""
        self.larder.api.delete(f"{SERVICES}/{service}")
        chosen = f"labelSelector=serving.kserve.io/inferenceservice={service}"
        self.larder.until(
            lambda: not self.larder.api.get(f"{PODS}?{chosen}")["items"], f"the pods of {service} to be gone"
        )

    def create_by_kubectl(self, body: Json) -> str:
        """Create an object as a user would, and return the warnings."""
        argv = [str(self.kubectl), f"--kubeconfig={self.larder.cluster.plane.kubeconfig}", "create", "-f", "-"]
        done = subprocess.run(argv, input=json.dumps(body), capture_output=True, text=True, check=False)  # noqa: S603 - our own kubectl
        assert done.returncode == 0, done.stderr
        return done.stderr

    def template(self, service: str) -> Json:
        """Return the pod template of a predictor, as KServe writes it."""
        found: Json = self.larder.api.get(f"{DEPLOYMENTS}/{service}-predictor")["spec"]["template"]
        return found

    def _why(self, service: str, component: str) -> str:
        path = f"{DEPLOYMENTS}/{service}-{component}"
        if not self.larder.api.answers(path):
            return f"none; the service says {self.larder.api.get(f'{SERVICES}/{service}').get('status')}"
        return json.dumps(self.larder.api.get(path).get("status"))


def mounts(pod: Json, container: int = 0) -> dict[str, Json]:
    """Return a container's mounts by path, without the service account token."""
    found = pod["spec"]["containers"][container].get("volumeMounts", [])
    return {m["mountPath"]: m for m in found if not m["mountPath"].startswith("/var/run/secrets")}


def not_cached(pod: Json) -> str:
    """Return the reason why a pod did not get the cache, or an empty string."""
    return str(pod["metadata"]["annotations"].get("larder.dev/not-cached", ""))


def initializers(pod: Json) -> list[list[str]]:
    """Return the arguments of KServe's containers that download."""
    return [c["args"] for c in pod["spec"].get("initContainers", []) if c["name"] == "storage-initializer"]
