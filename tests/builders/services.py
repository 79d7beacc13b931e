"""Builders of services and their models."""

from typing import Any

from controller.inferenceservices.deployment import (
    SERVES_ANNOTATION,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    Template,
)
from controller.inferenceservices.view import ServedModel, ServiceView
from controller.placement.demand import Demand
from controller.state.keys import ModelKey
from shared.api.core import ObservedCondition
from shared.api.inference_service import InferenceService, InferenceServiceSpec, ModelRef, Replicas
from shared.kube.objects import Meta
from tests.builders.demands import demand as any_demand

READY = ServedModel("ClusterBaseModel m", ModelKey("ClusterBaseModel", "", "m"), "r1", "m@r1")
WAITING = ServedModel(
    "ClusterBaseModel m", ModelKey("ClusterBaseModel", "", "m"), "", "", "Downloading", "0 of 2 nodes"
)
MISSING = ServedModel("ClusterBaseModel m", reason="ModelNotFound", message="there is no ClusterBaseModel m")
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]}}


def service(name: str = "svc", namespace: str = "team", **spec: Any) -> InferenceService:
    """A service of ClusterBaseModel `m` in namespace `team`."""
    replicas = Replicas(**spec.pop("replicas", {}))
    metadata = Meta(name=name, namespace=namespace, uid="svc-1", generation=3, **spec.pop("metadata", {}))
    named = {} if "storage_uri" in spec else {"model": ModelRef(name="m")}
    fields = {"template": TEMPLATE, **named, **spec}
    return InferenceService(metadata=metadata, spec=InferenceServiceSpec(replicas=replicas, **fields))


def owned(uid: str = "svc-1", **fields: Any) -> Meta:
    """The metadata of an object that a service created."""
    reference = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "name": "svc", "uid": uid}
    return Meta(name="svc", uid="made-1", owner_references=[reference | {"controller": True}], **fields)


def deployment(serves: str = "m@r1", meta: Meta | None = None, wanted: int = 1, **status: Any) -> Deployment:
    """A Deployment of the service; `conditions` of its status are written as `type=status`."""
    reported = [text.partition("=") for text in status.pop("conditions", ())]
    conditions = [ObservedCondition(type=t, status=s, reason="R", message=f"about {t}") for t, _, s in reported]
    template = Template(metadata=Meta(annotations={SERVES_ANNOTATION: serves}))
    return Deployment(
        metadata=meta or owned(generation=5),
        spec=DeploymentSpec(replicas=wanted, template=template),
        status=DeploymentStatus(conditions=conditions, **({"observed_generation": 5} | status)),
    )


def view(model: ServedModel = READY, **fields: Any) -> ServiceView:
    """A service as a reconcile sees it; arguments that are not fields of the view are fields of the spec."""
    parts = {name: fields.pop(name) for name in ("deployment", "kube_service", "autoscaler") if name in fields}
    return ServiceView(service=service(**fields), model=model, **parts)


def demand(name: str = "m", namespace: str = "", uri: str = "hf://o/m@main", **fields: Any) -> Demand:
    """A base model's demand."""
    kind = fields.pop("kind", "BaseModel" if namespace else "ClusterBaseModel")
    defaults = {"uid": f"{kind}-{namespace}-{name}", "id": f"{namespace}_{name}", **fields}
    return any_demand(name, kind=kind, namespace=namespace, uri=uri, **defaults)
