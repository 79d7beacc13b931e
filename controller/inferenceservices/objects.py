"""The manifests of a service's objects, with only the fields that we own. No input or output, no clock."""

import copy

from controller.admission.pods.pod_annotations import BASE_MODEL, MODEL_CONTAINER, MODEL_KIND
from controller.inferenceservices.deployment import SERVES_ANNOTATION, SERVICE_LABEL
from controller.inferenceservices.view import ServedModel
from shared.api.inference_service import GROUP, VERSION, InferenceService
from shared.json_object import Json

_DEFAULT_CPU_PERCENT = 80
_HTTP_PORT = 80


def deployment_of(
    service: InferenceService, model: ServedModel, *, replicas: int | None, strategy: Json | None = None
) -> Json:
    """Return the Deployment; with `replicas` None the number is left unchanged.

    `strategy` takes the place of the service's own.
    """
    spec: Json = {
        "selector": {"matchLabels": labels_of(service)},
        "template": template_of(service, model),
    }
    if wanted := strategy or service.spec.strategy:
        spec["strategy"] = wanted
    return _object("apps/v1", "Deployment", service, spec | ({} if replicas is None else {"replicas": replicas}))


def template_of(service: InferenceService, model: ServedModel) -> Json:
    """Return the pod template: the user's, plus the annotations that ask admission for the model."""
    template: Json = copy.deepcopy(service.spec.template)
    metadata: Json = template.get("metadata") or {}
    defaults = {
        BASE_MODEL: model.key.name if model.key else "",
        MODEL_KIND: model.key.kind if model.key else "",
        MODEL_CONTAINER: service.spec.served_container,
        SERVES_ANNOTATION: model.serves,
    }
    template["metadata"] = metadata | {
        "labels": (metadata.get("labels") or {}) | labels_of(service),
        "annotations": (metadata.get("annotations") or {}) | defaults,
    }
    return template


def replicas_of(service: InferenceService, count: int) -> Json:
    """Return only the replica count, which has its own field manager so that an autoscaler can take over."""
    meta = service.metadata
    named = {"name": meta.name, "namespace": meta.namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": {"replicas": count}}


def kube_service_of(service: InferenceService) -> Json:
    """Return the Service."""
    port = service.spec.port
    ports = [{"name": "http", "port": port, "targetPort": port, "protocol": "TCP"}]
    return _object("v1", "Service", service, {"selector": labels_of(service), "ports": ports})


def autoscaler_of(service: InferenceService) -> Json:
    """Return the HorizontalPodAutoscaler."""
    replicas = service.spec.replicas
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": _DEFAULT_CPU_PERCENT}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": service.metadata.name},
        "minReplicas": replicas.min,
        "maxReplicas": replicas.max,
        "metrics": replicas.metrics or [{"type": "Resource", "resource": cpu}],
    }
    return _object("autoscaling/v2", "HorizontalPodAutoscaler", service, spec)


def url_of(service: InferenceService) -> str:
    """Return the cluster-internal URL of the Service."""
    port = service.spec.port
    host = f"http://{service.metadata.name}.{service.metadata.namespace}.svc"
    return host if port == _HTTP_PORT else f"{host}:{port}"


def labels_of(service: InferenceService) -> dict[str, str]:
    """Return the labels that select a service's pods."""
    return {SERVICE_LABEL: service.metadata.name}


def path_of(kind: str, namespace: str, name: str) -> str:
    """Return the API path of one of the objects."""
    root, plural = _PLACES[kind]
    return f"{root}/namespaces/{namespace}/{plural}/{name}"


_PLACES = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Service": ("/api/v1", "services"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
}


def _object(api_version: str, kind: str, service: InferenceService, spec: Json) -> Json:
    meta = service.metadata
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "InferenceService", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": labels_of(service) | {"app.kubernetes.io/managed-by": "larder"},
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": False}],
        },
        "spec": spec,
    }
