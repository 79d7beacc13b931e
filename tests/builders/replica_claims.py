"""Workloads whose pods get claims through the annotation, as users write them."""

import json
from collections.abc import Mapping

from shared.json_object import Json

TEMPLATES, GATE = "larder.dev/volume-claim-templates", "larder.dev/volume-claims"
WORKLOADS: list[Json] = [
    {"apiVersion": "batch/v1", "kind": "Job", "resource": "jobs"},
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "resource": "statefulsets"},
    {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "resource": "jobsets"},
    {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "resource": "leaderworkersets"},
    {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "resource": "trainjobs"},
    {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "resource": "pytorchjobs"},
]


def template(name: str = "data", **spec: object) -> Json:
    """Return one claim template."""
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": asked | spec}


def pod_template(templates: object, *names: str, annotations: Mapping[str, str] | None = None) -> Json:
    """Return a pod template with the annotation, text or a value to encode, whose container mounts the volumes."""
    text = templates if isinstance(templates, str) else json.dumps(templates)
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    container = {"name": "main", "image": "train:none", "volumeMounts": mounts}
    metadata = {"annotations": {TEMPLATES: text} | dict(annotations or {})}
    return {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}


def job(name: str, pods: Json, count: int = 1, **spec: object) -> Json:
    """Return an indexed Job."""
    fields = {"completionMode": "Indexed", "completions": count, "parallelism": count, "template": pods} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": fields}


def definition(api_version: str, kind: str) -> Json:
    """Return the CRD of a foreign kind, for objects that no controller reconciles."""
    group, _, version = api_version.partition("/")
    plural, schema = f"{kind.lower()}s", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def reading_role() -> tuple[Json, Json]:
    """Return the ClusterRole that the chart gives the controller for these workloads, and its binding."""
    name = "larder-volume-claim-templates"
    rules = [
        {"apiGroups": [w["apiVersion"].partition("/")[0]], "resources": [w["resource"]], "verbs": ["get"]}
        for w in WORKLOADS
    ]
    account = {"kind": "ServiceAccount", "name": "larder-controller", "namespace": "larder-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    return (
        {"metadata": {"name": name}, "rules": rules},
        {"metadata": {"name": name}, "roleRef": reference, "subjects": [account]},
    )
