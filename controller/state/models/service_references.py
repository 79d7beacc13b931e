"""Which model a service refers to, and which services use a model: plain functions of data."""

from collections.abc import Iterable, Iterator

from controller.placement.demand import Demand
from shared.api.inference_service import InferenceService
from shared.errors import InvalidURI
from shared.uri.model_uri import parse_uri

BASE_KINDS = ("BaseModel", "ClusterBaseModel")


def model_of(service: InferenceService, demands: Iterable[Demand]) -> Demand | None:
    """Return the model that a service refers to, or None.

    If several have its URI: one that is not being deleted or disabled, then one of its own namespace, then the oldest.
    """
    found = [d for d in demands if refers_to(service, d)]
    return min(found, key=lambda d: (d.deleting or d.disabled, d.kind != "BaseModel", d.age), default=None)


def refers_to(service: InferenceService, demand: Demand) -> bool:
    """Return whether a service's name or URI matches a model."""
    spec, namespace = service.spec, service.metadata.namespace
    if demand.kind not in BASE_KINDS or demand.namespace not in ("", namespace):
        return False
    if spec.model is not None:
        return (demand.kind, demand.name) == (spec.model.kind, spec.model.name)
    return bool(demand.uri) and demand.uri == _canonical(spec.storage_uri or "", cluster_scoped=not demand.namespace)


def services_with(
    demand: Demand, services: Iterable[InferenceService], demands: Iterable[Demand]
) -> Iterator[InferenceService]:
    """Yield the services that refer to this model, except those being deleted."""
    known = list(demands)
    for service in services:
        if service.metadata.deletion_timestamp is None and refers_to(service, demand):
            model = model_of(service, known)
            if model is None or model.uid == demand.uid:
                yield service


def _canonical(text: str, *, cluster_scoped: bool) -> str:
    try:
        return str(parse_uri(text, cluster_scoped=cluster_scoped))
    except InvalidURI:
        return ""
