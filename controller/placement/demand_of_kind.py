"""What an object of each kind demands."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from controller.placement.allowed_sources import EVERY_SOURCE, AllowedSources
from controller.placement.demand import Demand, Resolution
from shared.api.base_model import RESERVE_LABEL, BaseModel
from shared.api.cluster_model_cache import ClusterModelCache, ClusterModelCacheSpec
from shared.api.core import is_long
from shared.api.meta import ModelStatus
from shared.api.model_cache import ModelCache, ModelCacheSpec, ModelCacheStatus
from shared.errors import InvalidURI
from shared.names import cache_id, model_id
from shared.quantity import parse_quantity
from shared.selection.choice import WHOLE, RequestedSelection, Selection, choose, requested_in_parameters
from shared.uri.model_uri import PvcUri, parse_declared

FOREIGN = "vendor://"
PIN_ANNOTATION = "larder.dev/pin"
PRIORITY_ANNOTATION = "larder.dev/priority"
REFRESH_ANNOTATION = "larder.dev/refresh"
DRIFT_ANNOTATION = "larder.dev/drift"
FOLLOW = "Follow"
_MAX_REFRESH_CHARS = 1024
# an absurd priority on one object must not invalidate the ModelNodes of all its nodes
_MAX_PRIORITY = 1_000_000_000
Declared: TypeAlias = BaseModel | ClusterModelCache
LONG_AFFINITY = (
    "spec.storage.nodeAffinity has more than 4 KiB, which would be compared with every node; use fewer or shorter "
    "terms, or label the nodes"
)


def base_model_demand(
    kind: str, model: BaseModel, allowed: AllowedSources = EVERY_SOURCE, files: Selection | None = WHOLE
) -> Demand:
    """Return the demand of a BaseModel or ClusterBaseModel; `allowed` restricts only the former.

    `files` is the cluster's default selection; None if it is unknown, in which case the status is trusted.
    """
    storage = model.spec.storage
    too_long = bool(model.metadata.namespace) and is_long(storage.node_affinity)
    demand = _demand(
        kind,
        model,
        storage.storage_uri,
        partial(requested_in_parameters, storage.parameters),
        files,
        cluster_scoped=not model.metadata.namespace,
        allowed=allowed if model.metadata.namespace else EVERY_SOURCE,
        node_selector=storage.node_selector,
        node_affinity={} if too_long else storage.node_affinity,
        secret=storage.key,
        secret_key=storage.parameters.get("secretKey", ""),
        reuse=storage.download_policy == "ReuseIfExists",
        disabled=model.spec.disabled,
    )
    return replace(demand, invalid=demand.invalid or LONG_AFFINITY) if too_long else demand


def cache_demand(kind: str, cache: ClusterModelCache, files: Selection | None = WHOLE) -> Demand:
    """Return the demand of a ClusterModelCache; `files` as in `base_model_demand`."""
    spec = cache.spec
    return _demand(
        kind,
        cache,
        spec.storage_uri,
        partial(_requested, spec),
        files,
        cluster_scoped=True,
        allowed=EVERY_SOURCE,
        groups=spec.groups,
        secret=spec.credentials_secret,
        declared_bytes=_bytes(spec.model_size),
    )


def _bytes(quantity: int | str | None) -> int:
    """Return a quantity in bytes; none or an invalid one counts as 0, so a typo cannot block a model."""
    try:
        return parse_quantity(quantity) if quantity else 0
    except ValueError:
        return 0


def model_cache_demand(cache: ModelCache, allowed: AllowedSources = EVERY_SOURCE, files: Selection = WHOLE) -> Demand:
    """Return the demand of a ModelCache; no node ever holds it."""
    spec, meta, status = cache.spec, cache.metadata, cache.status
    source = _source(spec.storage_uri, allowed, cluster_scoped=False)
    source, selection = _select(source, lambda: _requested(spec), files)
    return Demand(
        kind="ModelCache",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp,
        id=cache_id(meta.namespace, meta.name),
        uri=source.uri,
        invalid=source.invalid,
        refused=source.refused,
        on_claim=source.on_claim,
        node_selector=spec.node_selector,
        secret=spec.credentials_secret,
        selection=selection,
        deleting=meta.deletion_timestamp is not None,
        resolution=_resolution(status, source.uri, selection.key),
        serving=status.serving_revision,
        refresh=meta.annotations.get(REFRESH_ANNOTATION, "")[:_MAX_REFRESH_CHARS],
        refreshed=status.refreshed,
    )


def _requested(spec: ClusterModelCacheSpec | ModelCacheSpec) -> RequestedSelection:
    return RequestedSelection(
        tuple(spec.allow_patterns), tuple(spec.ignore_patterns), spec.duplicate_weights, spec.allow_pickle
    )


def _demand(
    kind: str,
    declared: Declared,
    uri: str,
    requested: Callable[[], RequestedSelection],
    files: Selection | None,
    *,
    cluster_scoped: bool,
    allowed: AllowedSources,
    **fields: Any,  # noqa: ANN401 - fields of Demand
) -> Demand:
    meta = declared.metadata
    foreign = uri.startswith(FOREIGN)
    source = _Source() if foreign else _source(uri, allowed, cluster_scoped=cluster_scoped)
    source, selection = _select(source, requested, files or WHOLE)
    resolved_as = declared.status.selection if files is None else selection.key
    return Demand(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp,
        id=model_id(meta.namespace, meta.name),
        uri=source.uri,
        invalid=source.invalid,
        refused=source.refused,
        on_claim=source.on_claim,
        foreign=foreign,
        selection=selection,
        reserved=meta.labels.get(RESERVE_LABEL) == "true",
        deleting=meta.deletion_timestamp is not None,
        pinned=meta.annotations.get(PIN_ANNOTATION) == "true",
        priority=_priority(meta.annotations.get(PRIORITY_ANNOTATION, "0")),
        resolution=_resolution(declared.status, source.uri, resolved_as),
        serving=declared.status.serving_revision,
        claim_revision=declared.status.claim_revision,
        refresh=meta.annotations.get(REFRESH_ANNOTATION, "")[:_MAX_REFRESH_CHARS],
        refreshed=declared.status.refreshed,
        follows=meta.annotations.get(DRIFT_ANNOTATION) == FOLLOW,
        upstream=declared.status.upstream_revision,
        number=declared.status.resolution_number,
        **fields,
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """What a URI says, as fields of Demand."""

    uri: str = ""
    invalid: str = ""
    refused: str = ""
    on_claim: bool = False


def _select(
    source: _Source, requested: Callable[[], RequestedSelection], files: Selection
) -> tuple[_Source, Selection]:
    """Return the source and the selection of its files; an invalid request makes the source invalid."""
    try:
        return source, choose(requested(), files)
    except ValueError as error:
        return _Source(invalid=source.invalid or str(error)), WHOLE


def _source(text: str, allowed: AllowedSources, *, cluster_scoped: bool) -> _Source:
    try:
        uri = parse_declared(text, cluster_scoped=cluster_scoped)
    except InvalidURI as error:
        return _Source(invalid=str(error))
    return _Source(str(uri), refused=allowed.refusal_of(uri), on_claim=isinstance(uri, PvcUri))


def _priority(text: str) -> int:
    """Return the annotation's number, clamped; invalid values count as 0, so a typo cannot block a model."""
    try:
        return max(-_MAX_PRIORITY, min(_MAX_PRIORITY, int(text)))
    except ValueError:
        return 0


def _resolution(status: ModelStatus | ModelCacheStatus, uri: str, selection: str) -> Resolution | None:
    """Return the recorded resolution, unless the URI or the selection has changed since."""
    if not status.manifest_digest or status.source != uri or status.selection != selection:
        return None
    return Resolution(
        uri,
        status.resolved_revision,
        status.manifest_digest,
        status.size,
        status.files,
        selection,
        status.left_out,
    )
