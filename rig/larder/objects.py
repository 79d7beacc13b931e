"""The objects of an installation: CRDs, roles, policies, webhooks."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from controller.admission.pods.pod_annotations import NAMED_MODELS
from rig.agents import ensure_service_account
from rig.api import Api
from rig.larder.webhooks import (
    WebhookSettings,
    injector_configuration,
    mutating_configuration,
    validating_configuration,
)
from rig.pods import plain_pod
from rig.processes import wait_until

KINDS = {
    "BaseModel": "/apis/ome.io/v1beta1/namespaces/default/basemodels",
    "InferenceService": "/apis/ome.io/v1beta1/namespaces/default/inferenceservices",
    "ClusterBaseModel": "/apis/ome.io/v1beta1/clusterbasemodels",
    "ClusterModelCache": "/apis/serving.kserve.io/v1alpha1/clustermodelcaches",
    "Model": "/apis/models.example.com/v1alpha1/namespaces/default/models",
    "ModelCache": "/apis/serving.kserve.io/v1alpha1/namespaces/default/modelcaches",
    "ModelCacheNodeGroup": "/apis/serving.kserve.io/v1alpha1/modelcachenodegroups",
    "ModelNode": "/apis/larder.dev/v1alpha1/modelnodes",
    "Node": "/api/v1/nodes",
    "TrainingJob": "/apis/larder.dev/v1alpha1/namespaces/default/trainingjobs",
}
_ROOT = Path(__file__).parents[2]
_NAMESPACE = "{{ .Release.Namespace }}"
_ACCOUNT = re.compile(r'\{\{ include "larder\.account" \(list \. "(\w+)"\) \}\}')
_WITHOUT_DEVICES = {
    '{{ include "larder.agentNodeParts" . }}': "''",
    '{{ include "larder.agentAnnotations" . }}': "k.startsWith('larder.dev/')",
}
_ESTABLISHED_S = 60.0
_PLURALS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


def path_of(kind: str, name: str) -> str:
    """Return the API path of one of our objects, or of a Node."""
    return f"{KINDS[kind]}/{name}"


def create(api: Api, kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the metadata
    """Create one of our objects, as a user would."""
    body = {"kind": kind, "metadata": {"name": name, **metadata}, "spec": dict(spec)}
    group_version = "/".join(KINDS[kind].removeprefix("/apis/").split("/")[:2])
    return api.create(KINDS[kind], {"apiVersion": group_version, **body})


def refused_group(name: str) -> tuple[str, dict[str, Any]]:
    """Return a path and a node group that admission refuses; the path is a dry run, so nothing is ever stored."""
    body: dict[str, Any] = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ModelCacheNodeGroup"}
    body |= {"metadata": {"name": name}, "spec": {"storageLimit": 0}}
    return f"{KINDS['ModelCacheNodeGroup']}?dryRun=All", body


def refused_pod(name: str) -> tuple[str, dict[str, Any]]:
    """Return a path and a pod that admission refuses whatever models exist; the path is a dry run, as above."""
    return "/api/v1/namespaces/default/pods?dryRun=All", plain_pod(name, {NAMED_MODELS: ","})


def install_kinds(api: Api) -> None:
    """Create the CRDs and wait until the API server serves them."""
    definitions = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted((_ROOT / "crds").glob("*.yaml"))]
    for definition in definitions:
        ensure(api, definition)
    for definition in definitions:
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_until(lambda path=path: api.answers(path), _ESTABLISHED_S, f"{path} to be served")  # type: ignore[misc]


def install_roles(api: Api, namespace: str) -> None:
    """Create the service accounts, roles and policies of the chart."""
    for program in ("controller", "agent"):
        ensure_service_account(api, f"larder-{program}", namespace)
    for manifest in _templates(namespace):
        ensure(api, manifest)


def open_to_services(api: Api, namespace: str) -> None:
    """Allow InferenceServices, TrainingJobs and bindings in a namespace, as an administrator would."""
    kinds = ("inference-services", "training-jobs", "device-scheduling")
    labels = {f"larder.dev/{kind}": "true" for kind in kinds}
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})


def install_webhooks(api: Api, settings: WebhookSettings) -> None:
    """Create or update the admission configurations."""
    configurations = (
        mutating_configuration(settings),
        injector_configuration(settings),
        validating_configuration(settings),
    )
    for manifest in configurations:
        ensure(api, manifest)


def ensure(api: Api, manifest: dict[str, Any]) -> None:
    """Create an object, or merge into the existing one."""
    collection = _PLURALS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace", ""))
    if api.ensure(collection, manifest) is None:
        api.patch(f"{collection}/{manifest['metadata']['name']}", manifest)


def without_helm(template: str, namespace: str) -> str:
    """Render a template with this namespace, the default accounts of the chart, and without devices."""
    for include, text in _WITHOUT_DEVICES.items():
        template = template.replace(include, text)
    return _ACCOUNT.sub(r"larder-\1", template.replace(_NAMESPACE, namespace))


def _templates(namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of the chart templates that depend only on the namespace."""
    folder = _ROOT / "charts" / "larder" / "templates"
    for name in (
        "controller-rbac.yaml", "model-caches.yaml", "agent-rbac.yaml", "agent-policies.yaml",
        "inference-services.yaml", "models.yaml", "training-jobs.yaml", "device-scheduling.yaml",
        "device-annotations.yaml", "dra-rbac.yaml",
    ):  # fmt: skip
        lines = without_helm((folder / name).read_text(), namespace).splitlines()
        plain = (line for line in lines if not line.startswith("{{") and "{{- include" not in line)
        yield from yaml.load_all("\n".join(plain), yaml.CSafeLoader)
