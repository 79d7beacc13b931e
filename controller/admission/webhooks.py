"""The webhook configurations: what the API server sends to admission, and what it does not."""

import base64
import json
from dataclasses import dataclass
from typing import TypeAlias

from controller.admission.pod_annotations import OURS, TRIGGERS, Json
from controller.admission.rules.registered import RULES
from controller.admission.server import MUTATE_PATH, VALIDATE_PATH, path_with
from shared.names import USES_PREFIX

_GROUP_VERSION = "admissionregistration.k8s.io/v1"
_CHECKED = tuple(rule.definition for rule in RULES)


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
    """What differs between installations; `ca_bundle` is PEM, `key` the secret part of the path."""

    address: Address
    ca_bundle: bytes
    key: str
    release_namespace: str
    store_root: str
    name: str = "larder"
    timeout_s: int = 5
    failure_policy: str = "Fail"


def mutating_configuration(settings: WebhookSettings) -> Json:
    """Return the MutatingWebhookConfiguration: pods with our keys, and debuggers of pods with a model."""
    pods = _webhook(settings, "pods.larder.dev", MUTATE_PATH) | {
        "rules": [_rule("", "v1", "pods", ["CREATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "matchConditions": [{"name": "asks-for-a-model", "expression": _asks()}],
        "reinvocationPolicy": "IfNeeded",
    }
    debuggers = _webhook(settings, "ephemeralcontainers.larder.dev", MUTATE_PATH) | {
        "rules": [_rule("", "v1", "pods/ephemeralcontainers", ["UPDATE"], "Namespaced")],
        "namespaceSelector": _elsewhere(settings.release_namespace),
        "matchConditions": [{"name": "has-a-model", "expression": _mounts_store(settings.store_root)}],
        "reinvocationPolicy": "IfNeeded",
    }
    return _configuration("MutatingWebhookConfiguration", settings.name, [pods, debuggers])


def validating_configuration(settings: WebhookSettings) -> Json:
    """Return the ValidatingWebhookConfiguration: models, caches and groups, unless they are being deleted."""
    models = _webhook(settings, "models.larder.dev", VALIDATE_PATH) | {
        "rules": [
            _rule(
                d.group,
                d.version,
                d.plural,
                ["CREATE", "UPDATE", "DELETE"],
                "Namespaced" if d.namespaced else "Cluster",
            )
            for d in _CHECKED
        ],
        "matchConditions": [{"name": "changes-what-is-wanted", "expression": _CHANGES}],
    }
    return _configuration("ValidatingWebhookConfiguration", settings.name, [models])


# Finalizers, labels and status must stay writable while this server is down.
_CHANGES = (
    "request.operation != 'UPDATE' || (!has(object.metadata.deletionTimestamp) "
    "&& (!has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec))"
)


def _asks() -> str:
    keys = " || ".join(f"{json.dumps(key)} in object.metadata.annotations" for key in (*TRIGGERS, *OURS))
    labelled = f"object.metadata.labels.exists(k, k.startsWith({json.dumps(USES_PREFIX)}))"
    return f"(has(object.metadata.annotations) && ({keys})) || (has(object.metadata.labels) && {labelled})"


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
    """Return a selector for all namespaces but the cluster's and ours, whose pods must start without this server."""
    names = list(dict.fromkeys(["kube-system", release_namespace]))
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}]}


def _configuration(kind: str, name: str, webhooks: list[Json]) -> Json:
    labels = {"app.kubernetes.io/part-of": "larder"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": _GROUP_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks}
