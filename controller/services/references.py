"""Which model a service means, and which services use a model: plain functions of data."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.admission.keys import ENABLE_CACHE, NODE_GROUP
from controller.placement.demand import Demand
from shared.api.inference_service import InferenceService
from shared.errors import InvalidURI
from shared.uri import parse_uri, sub_path_of

BASE_KINDS = ("BaseModel", "ClusterBaseModel")
Json = Mapping[str, Any]


def model_of(service: InferenceService, demands: Iterable[Demand]) -> Demand | None:
    """Return the model that a service names, None where there is none.

    Of several with its URI: one that is not going away or disabled, then one of its own namespace, then the oldest.
    """
    found = [d for d in demands if refers_to(service, d)]
    return min(found, key=lambda d: (d.deleting or d.disabled, d.kind != "BaseModel", d.age), default=None)


def refers_to(service: InferenceService, demand: Demand) -> bool:
    """Return whether a service's name or URI fits a model."""
    spec, namespace = service.spec, service.metadata.namespace
    if demand.kind not in BASE_KINDS or demand.namespace not in ("", namespace):
        return False
    if spec.model is not None:
        return (demand.kind, demand.name) == (spec.model.kind, spec.model.name)
    return bool(demand.uri) and demand.uri == _canonical(spec.storage_uri or "", cluster_scoped=not demand.namespace)


def services_with(
    demand: Demand, services: Iterable[InferenceService], demands: Iterable[Demand]
) -> Iterator[InferenceService]:
    """Yield the services whose model is this one, those that are being deleted not among them."""
    known = list(demands)
    for service in services:
        if service.metadata.deletion_timestamp is None and refers_to(service, demand):
            meant = model_of(service, known)
            if meant is None or meant.uid == demand.uid:
                yield service


def kserve_services_with(cache: Demand, services: Iterable[Json], usable: Iterable[Demand]) -> Iterator[str]:
    """Yield KServe's services, as `namespace/name`, that a cache serves: those that ask for one, by the longest URI.

    `usable` are the caches that pods can get. One of a longer URI takes a service from this cache only if it is among
    them, kept on the group that the service names, and the service wants all of it: of a part, admission looks whether
    it is there, and takes the shorter one where it is not.
    """
    rivals = [other for other in usable if len(other.uri) > len(cache.uri)]
    for service in services:
        meta = service.get("metadata") or {}
        if meta.get("deletionTimestamp") or not asks_for_cache(service):
            continue
        groups = set(_annotated(service, NODE_GROUP))
        others = [other.uri for other in rivals if groups <= set(other.groups)]
        wanted = [uri for text in kserve_uris(service) if (uri := _canonical(text, cluster_scoped=True))]
        if any(sub_path_of(uri, cache.uri) is not None and uri not in others for uri in wanted):
            yield f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def asks_for_cache(service: Json) -> bool:
    """Return whether one of KServe's services opts in, for itself or for its predictor's pods."""
    return any(value.lower() == "true" for value in _annotated(service, ENABLE_CACHE))


def _annotated(service: Json, key: str) -> Iterator[str]:
    """Yield what an annotation says on one of KServe's services and on its predictor's pods."""
    predictor = (service.get("spec") or {}).get("predictor") or {}
    for place in ((service.get("metadata") or {}).get("annotations"), predictor.get("annotations")):
        if value := str((place or {}).get(key, "")):
            yield value


def kserve_uris(service: Json) -> Iterator[str]:
    """Yield the URIs that a predictor of KServe's names: its own, its model's, or that of an older framework field."""
    predictor = (service.get("spec") or {}).get("predictor") or {}
    for part in (predictor, *(value for value in predictor.values() if isinstance(value, dict))):
        if isinstance(uri := part.get("storageUri"), str) and uri:
            yield uri


def _canonical(text: str, *, cluster_scoped: bool) -> str:
    try:
        return str(parse_uri(text, cluster_scoped=cluster_scoped))
    except InvalidURI:
        return ""
