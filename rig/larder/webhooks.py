"""The webhook configurations that the chart renders, for a controller at any address."""

import base64
import json
from dataclasses import dataclass
from typing import TypeAlias

from controller.admission.model_injector.annotations import INJECT
from controller.admission.pods.pod_annotations import POD_KEYS
from controller.admission.rules.registered import RULES
from controller.admission.server import INJECT_PATH, MUTATE_JOBS_PATH, MUTATE_PATH, VALIDATE_PATH, path_with
from controller.replica_claims.annotation import TEMPLATES_ANNOTATION
from shared.devices.annotation import ANNOTATION as DEVICE_INFO
from shared.devices.scheduler import SCHEDULER_NAME
from shared.json_object import Json
from shared.names import INJECTED_LABEL, USES_PREFIX

INJECTOR = "model-injector"
_GROUP_VERSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class AtUrl:
    """The server is outside the cluster, at `https://HOST:PORT`."""

    base: str

    def client(self, path: str) -> Json:
        """Return the clientConfig of a path."""
        return {"url": self.base.rstrip("/") + path}


@dataclass(frozen=True, slots=True)
class AtService:
    """The server is behind a Service."""

    namespace: str
    name: str
    port: int = 443

    def client(self, path: str) -> Json:
        """Return the clientConfig of a path."""
        return {"service": {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}}


Address: TypeAlias = AtUrl | AtService


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings that differ between installations; `ca_bundle` is PEM, `key` the secret part of the path."""

    address: Address
    ca_bundle: bytes
    key: str
    release_namespace: str
    store_root: str
    name: str = "larder"
    timeout_s: int = 5
    failure_policy: str = "Fail"


def mutating_configuration(settings: WebhookSettings) -> Json:
    """Return the MutatingWebhookConfiguration: pods and Jobs that use models, and debuggers of pods with a model."""
    pods = _webhook(settings, "pods.larder.dev", MUTATE_PATH) | {
        "rules": [_rule("", "v1", "pods", ["CREATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "matchConditions": [{"name": "asks-for-a-model", "expression": _asks()}],
        "reinvocationPolicy": "IfNeeded",
    }
    jobs = _webhook(settings, "jobs.larder.dev", MUTATE_JOBS_PATH) | {
        "rules": [_rule("batch", "v1", "jobs", ["CREATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "matchConditions": [{"name": "has-claim-templates", "expression": _HAS_TEMPLATES}],
        "reinvocationPolicy": "IfNeeded",
    }
    debuggers = _webhook(settings, "ephemeralcontainers.larder.dev", MUTATE_PATH) | {
        "rules": [_rule("", "v1", "pods/ephemeralcontainers", ["UPDATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "matchConditions": [{"name": "has-a-model", "expression": _mounts_store(settings.store_root)}],
        "reinvocationPolicy": "IfNeeded",
    }
    return _configuration("MutatingWebhookConfiguration", settings.name, [pods, jobs, debuggers])


def injector_configuration(settings: WebhookSettings) -> Json:
    """Return the MutatingWebhookConfiguration for pods that name Models; they start without them if it fails."""
    injector = _webhook(settings, "model-injector.models.example.com", INJECT_PATH) | {
        "failurePolicy": "Ignore",
        "timeoutSeconds": 10,
        "rules": [_rule("", "v1", "pods", ["CREATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "objectSelector": {"matchExpressions": [{"key": INJECTED_LABEL, "operator": "DoesNotExist"}]},
        "matchConditions": [{"name": "names-models", "expression": _HAS_INJECT}],
    }
    return _configuration("MutatingWebhookConfiguration", INJECTOR, [injector])


_HAS_INJECT = f"has(object.metadata.annotations) && {json.dumps(INJECT)} in object.metadata.annotations"


def validating_configuration(settings: WebhookSettings) -> Json:
    """Return the ValidatingWebhookConfiguration: models, caches, groups and jobs, unless they are being deleted."""
    models = _webhook(settings, "models.larder.dev", VALIDATE_PATH) | {
        "rules": [
            _rule(d.group, d.version, d.plural, rule.operations, "Namespaced" if d.namespaced else "Cluster")
            for rule in RULES
            for d in (rule.definition,)
        ],
        "matchConditions": [{"name": "changes-what-is-wanted", "expression": _CHANGES}],
    }
    return _configuration("ValidatingWebhookConfiguration", settings.name, [models])


# Finalizers, labels and status must stay writable while this server is down.
_CHANGES = (
    "request.operation != 'UPDATE' || (!has(object.metadata.deletionTimestamp) "
    "&& (!has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec))"
)


# The API server refuses a Job that mounts a volume which its template lacks, so admission adds the volumes to the Job.
_HAS_TEMPLATES = (
    "has(object.spec.template.metadata) && has(object.spec.template.metadata.annotations) "
    f"&& {json.dumps(TEMPLATES_ANNOTATION)} in object.spec.template.metadata.annotations"
)


def _asks() -> str:
    keys = " || ".join(f"{json.dumps(key)} in object.metadata.annotations" for key in (*POD_KEYS, DEVICE_INFO))
    labelled = f"object.metadata.labels.exists(k, k.startsWith({json.dumps(USES_PREFIX)}))"
    ours = f"object.spec.schedulerName == {json.dumps(SCHEDULER_NAME)}"
    return (
        f"(has(object.metadata.annotations) && ({keys})) || (has(object.metadata.labels) && {labelled}) || "
        f"(has(object.spec.schedulerName) && {ours})"
    )


def _mounts_store(store_root: str) -> str:
    """Return an expression on the pod's volumes: unlike annotations they are immutable, so nobody can evade it."""
    inside = f"has(v.hostPath) && (v.hostPath.path + '/').startsWith({json.dumps(store_root + '/')})"
    return f"has(object.spec.volumes) && object.spec.volumes.exists(v, {inside})"


def _webhook(settings: WebhookSettings, name: str, path: str) -> Json:
    bundle = base64.b64encode(settings.ca_bundle).decode()
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": settings.address.client(path_with(settings.key, path)) | {"caBundle": bundle},
        "failurePolicy": settings.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout_s,
    }


def _rule(group: str, version: str, resource: str, operations: list[str], scope: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        "operations": operations,
        "scope": scope,
    }


def _elsewhere(release_namespace: str) -> Json:
    """Return a selector of namespaces that excludes kube-system and ours, whose pods must start without this server."""
    names = list(dict.fromkeys(["kube-system", release_namespace]))
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}]}


def _configuration(kind: str, name: str, webhooks: list[Json]) -> Json:
    labels = {"app.kubernetes.io/part-of": "larder"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": _GROUP_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks}
