"""Which KServe services a cache serves: plain functions of what they declare, stopped services included."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from controller.admission.catalog.port import PathKind
from controller.admission.pods.pod_annotations import ENABLE_CACHE, NODE_GROUP
from controller.placement.demand import Demand
from shared.errors import InvalidURI
from shared.json_object import ReadOnlyJson
from shared.uri.model_uri import parse_uri, sub_path_of

KindOf: TypeAlias = Callable[[Demand, str], PathKind | None]  # what a path is in a cache, None if unknown

_GROUP = "/apis/serving.kserve.io"
# Each kind with the versions that KServe releases serve, newest first.
KSERVE_PATHS = (
    (f"{_GROUP}/v1beta1/inferenceservices",),
    (f"{_GROUP}/v1alpha2/llminferenceservices", f"{_GROUP}/v1alpha1/llminferenceservices"),
)
_CLAIM = "pvc://"
_COMPONENTS = ("predictor", "transformer", "explainer")
_URI_VARIABLE = "STORAGE_URI"
_MAX_URIS = 100  # of a component; a tenant may write 20,000, which would take a second to compare


@dataclass(frozen=True, slots=True)
class ServedComponent:
    """A component whose pods may download a model: its URIs, whether it opts in to the cache, and its node group."""

    uris: tuple[str, ...]
    requests_cache: bool
    group: str


@dataclass(frozen=True, slots=True)
class KServeService:
    """What decides which cache a service uses; the whole object may have a megabyte.

    Args:
        namespace: Its namespace.
        title: `namespace/name`, with the kind if it is an LLMInferenceService.
        components: Its components; none if it is being deleted.
    """

    namespace: str
    title: str
    components: tuple[ServedComponent, ...]


def in_namespace(path: str, namespace: str) -> str:
    """Return the path of a collection in one namespace, or in all if `namespace` is empty."""
    version, _, plural = path.rpartition("/")
    return f"{version}/namespaces/{namespace}/{plural}" if namespace else path


def nothing_known(_cache: Demand, _path: str) -> None:
    """Return None for every path; for callers that know no lists of files."""


def kserve_services_with(
    cache: Demand, services: Iterable[KServeService], usable: Iterable[Demand], kind_of: KindOf = nothing_known
) -> Iterator[str]:
    """Yield the KServe services that a cache serves, as `namespace/name`: those that opt in, by longest matching URI.

    `usable` are the caches that pods can get. A cache with a longer URI takes a service from this one only if it is
    among them, is kept on the group that the service names, and is known to have what the service wants. A component
    does not use this cache if the cache is known to lack its path.
    """
    rivals = [other for other in usable if len(other.uri) > len(cache.uri)]
    for service in services:
        if any(_uses(component, cache, rivals, kind_of) for component in service.components):
            yield service.title


def read_service(service: ReadOnlyJson) -> KServeService:
    """Return what matters of an InferenceService or LLMInferenceService."""
    meta, is_llm = _map(service.get("metadata")), service.get("kind") == "LLMInferenceService"
    namespace = str(meta.get("namespace", ""))
    title = f"{namespace}/{meta.get('name', '')}{' (LLMInferenceService)' if is_llm else ''}"
    return KServeService(namespace, title, () if meta.get("deletionTimestamp") else tuple(components_of(service)))


def components_of(service: ReadOnlyJson) -> Iterator[ServedComponent]:
    """Yield the components of an InferenceService or LLMInferenceService."""
    spec, common = _map(service.get("spec")), _map(_map(service.get("metadata")).get("annotations"))
    canaries = [_map(canary.get("predictor")) for canary in _maps(spec.get("canary"))]
    for component in (*(_map(spec.get(name)) for name in _COMPONENTS), *canaries):
        if component:
            yield _component(tuple(_uris_of(component)), {**common, **_map(component.get("annotations"))})
    if uris := tuple(_uris_of_llm(_map(spec.get("model")))):
        for workload in (spec, _map(spec.get("prefill"))):
            yield _component(uris, {**common, **_map(workload.get("annotations"))})


def _component(uris: tuple[str, ...], annotations: ReadOnlyJson) -> ServedComponent:
    requests_cache = str(annotations.get(ENABLE_CACHE, "")).lower() == "true"
    return ServedComponent(uris[:_MAX_URIS], requests_cache, str(annotations.get(NODE_GROUP, "")))


def _uses(component: ServedComponent, cache: Demand, rivals: list[Demand], kind_of: KindOf) -> bool:
    if not component.requests_cache:
        return False
    others = [rival for rival in rivals if not component.group or component.group in rival.groups]
    for uri in filter(None, map(_canonical, component.uris)):
        part = sub_path_of(uri, cache.uri)
        if part is None or (part and kind_of(cache, part) == "absent"):
            continue
        if not any(_serves(rival, uri, kind_of) for rival in others):
            return True
    return False


def _serves(cache: Demand, uri: str, kind_of: KindOf) -> bool:
    """Return whether a cache is known to have everything that a URI names."""
    part = sub_path_of(uri, cache.uri)
    return part is not None and (not part or kind_of(cache, part) in ("file", "directory"))


def _uris_of(component: ReadOnlyJson) -> Iterator[str]:
    """Yield a component's URIs: its own, its model's, an older framework field's, a container variable's."""
    for part in (component, *(value for value in component.values() if isinstance(value, dict))):
        yield from _texts([part.get("storageUri")])
        yield from _uri_of_storage(_map(part.get("storage")))
    listed = _texts(uri.get("uri") for uri in _maps(component.get("storageUris")))
    downloads = [uri for uri in listed if not uri.startswith(_CLAIM)]
    if len(downloads) == 1:  # a cache can replace only one
        yield downloads[0]
    for container in _maps(component.get("containers")):
        variables = _maps(container.get("env"))
        yield from _texts(v.get("value") for v in variables if v.get("name") == _URI_VARIABLE)


def _uri_of_storage(storage: ReadOnlyJson) -> Iterator[str]:
    """Yield the URI of `storage: {key, parameters, path}` if it names its bucket; KServe's Secrets are never read."""
    parameters = _map(storage.get("parameters"))
    path, bucket = storage.get("path"), parameters.get("bucket")
    if isinstance(path, str) and path and bucket and parameters.get("type", "s3") == "s3":
        yield f"s3://{bucket}/{path.removeprefix('/')}"


def _uris_of_llm(model: ReadOnlyJson) -> Iterator[str]:
    """Yield the URI of an LLMInferenceService's model, unless adapters are downloaded as well."""
    adapters = _texts(adapter.get("uri") for adapter in _maps(_map(model.get("lora")).get("adapters")))
    if all(uri.startswith(_CLAIM) for uri in adapters):
        yield from _texts([model.get("uri")])


def _canonical(text: str) -> str:
    try:
        return str(parse_uri(text, cluster_scoped=True))
    except InvalidURI:
        return ""


# KServe's definitions leave parts of the spec open, so their values may have any shape.
def _map(value: object) -> ReadOnlyJson:
    return value if isinstance(value, dict) else {}


def _maps(value: object) -> list[ReadOnlyJson]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(values: Iterable[object]) -> Iterator[str]:
    yield from (value for value in values if isinstance(value, str) and value)
