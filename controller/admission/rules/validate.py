"""Validates the write or deletion of an object that declares models: plain functions of data."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import (
    AdmissionRefused,
    InUse,
    InvalidPath,
    InvalidQuantity,
    InvalidSelection,
    InvalidSelector,
    InvalidTemplate,
    SourceNotAllowed,
    UnknownGroup,
)
from controller.admission.paths import checked_mount_path
from controller.admission.rules.selectors import affinity_problems, selector_problems
from controller.modelcaches.templates import ClaimTemplate
from controller.placement.allowed_sources import EVERY_SOURCE, AllowedSources
from controller.placement.demand_of_kind import (
    DRIFT_ANNOTATION,
    FOLLOW,
    FOREIGN,
    LONG_AFFINITY,
    PIN_ANNOTATION,
    PRIORITY_ANNOTATION,
)
from controller.volumes.templates import VolumeTemplate
from shared.api.core import is_long
from shared.errors import AuthDenied, InvalidURI, LarderError
from shared.quantity import parse_quantity
from shared.selection.choice import WHOLE, RequestedSelection, choose, requested_in_parameters
from shared.sources.credential_keys import why_never_a_token
from shared.uri.model_uri import parse_declared

CACHE_KIND = "ClusterModelCache"
GROUP_KIND = "ModelCacheNodeGroup"

_SHOWN = 5
_MOST_BYTES = 2**63 - 1  # the range of integers in the API
_ANNOTATIONS = {  # the annotations that are checked: their valid values, as a pattern and in words
    PIN_ANNOTATION: (re.compile("true|false"), '"true", or leave it out'),
    PRIORITY_ANNOTATION: (re.compile(r"\s*[+-]?[0-9]+\s*"), 'a whole number, for example "10"'),
    DRIFT_ANNOTATION: (re.compile(f"{FOLLOW}|Manual"), f"{FOLLOW} or Manual"),
}
Spec = Mapping[str, Any]


def needs_check(obj: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Return whether a write needs validation: the object is not being deleted, and its spec changed."""
    if obj.get("metadata", {}).get("deletionTimestamp"):
        return False
    return before is None or obj.get("spec") != before.get("spec")


def named_groups(spec: Spec) -> list[str]:
    """Return the groups that a cache names, without duplicates."""
    return list(dict.fromkeys(g for g in (spec.get("nodeGroup"), *(spec.get("nodeGroups") or [])) if g))


def check_base_model(obj: Mapping[str, Any], allowed: AllowedSources, *, cluster_scoped: bool) -> list[str]:
    """Return warnings about a base model to be written; raise all problems with it in one message."""
    spec: Spec = obj.get("spec") or {}
    _refuse(_base_model_problems(spec, allowed, cluster_scoped=cluster_scoped))
    return _base_model_warnings(spec)


def check_cache(obj: Mapping[str, Any], groups: Collection[str]) -> list[str]:
    """Return warnings about a cache to be written, or raise like check_base_model; `groups` are the existing groups."""
    _refuse(_cache_problems(obj.get("spec") or {}, groups))
    return []


def check_model_cache(
    obj: Mapping[str, Any], namespace: str, allowed: AllowedSources, csi_drivers: Collection[str]
) -> list[str]:
    """Return warnings about a ModelCache to be written, or raise like check_base_model."""
    _refuse(_model_cache_problems(obj.get("spec") or {}, namespace, allowed, csi_drivers))
    return []


def check_group(obj: Mapping[str, Any]) -> list[str]:
    """Return warnings about a node group to be written, or raise like check_base_model."""
    spec: Spec = obj.get("spec") or {}
    _refuse(_group_problems(spec))
    return _group_warnings(spec)


def _refuse(problems: Iterable[LarderError]) -> None:
    found = list(problems)
    if found:
        raise type(found[0])("; ".join(str(problem) for problem in found))


def annotation_warnings(obj: Mapping[str, Any]) -> list[str]:
    """Return a warning for each model annotation with an invalid value, which is ignored."""
    found: Mapping[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return [
        f"metadata.annotations[{key}]: {found[key]!r} is ignored; write {expected}"
        for key, (pattern, expected) in _ANNOTATIONS.items()
        if key in found and not pattern.fullmatch(found[key])
    ]


def _base_model_problems(spec: Spec, allowed: AllowedSources, *, cluster_scoped: bool) -> Iterator[LarderError]:
    storage: Spec = spec.get("storage") or {}
    uri = storage.get("storageUri") or ""
    if not uri.startswith(FOREIGN):
        yield from _uri_problems("spec.storage.storageUri", uri, allowed, cluster_scoped=cluster_scoped)
        yield from _token_problems(storage, cluster_scoped=cluster_scoped)
    if path := storage.get("path"):
        try:
            checked_mount_path(path)
        except InvalidPath as error:
            yield InvalidPath(f"spec.storage.path: {error}")
    try:
        choose(requested_in_parameters(storage.get("parameters") or {}), WHOLE)
    except ValueError as error:
        yield InvalidSelection(f"spec has an invalid file selection: {error}")
    if not cluster_scoped and is_long(storage.get("nodeAffinity") or {}):
        yield InvalidSelector(LONG_AFFINITY)
    else:
        yield from _selector_errors("spec.storage", storage)


def _base_model_warnings(spec: Spec) -> list[str]:
    uri = (spec.get("storage") or {}).get("storageUri") or ""
    return [f"{uri} is ignored: Larder does not manage {FOREIGN} models"] if uri.startswith(FOREIGN) else []


def _cache_problems(spec: Spec, groups: Collection[str]) -> Iterator[LarderError]:
    uri = spec.get("storageUri") or ""
    yield from _uri_problems("spec.storageUri", uri, EVERY_SOURCE, cluster_scoped=True)
    if uri.startswith("pvc://"):
        yield InvalidURI(
            "spec.storageUri: a claim needs no cache, because pods mount it directly; declare a BaseModel or "
            f"ClusterBaseModel with storageUri {uri}"
        )
    yield from _quantity_problems(spec, "modelSize")
    template = VolumeTemplate(spec.get("pvSpec") or {}, spec.get("pvcSpec") or {})
    yield from (InvalidTemplate(problem) for problem in template.problems())
    known = f"write one of {', '.join(sorted(groups)[:10])}" if groups else "none exists yet; create one first"
    for name in named_groups(spec):
        if name not in groups:
            yield UnknownGroup(f"spec.nodeGroup: there is no {GROUP_KIND} {name!r}; {known}")
    if not named_groups(spec):
        yield UnknownGroup(f"spec.nodeGroup: no {GROUP_KIND} is named; {known}")


def _model_cache_problems(
    spec: Spec, namespace: str, allowed: AllowedSources, csi_drivers: Collection[str]
) -> Iterator[LarderError]:
    uri = spec.get("storageUri") or ""
    yield from _uri_problems("spec.storageUri", uri, allowed, cluster_scoped=False)
    if uri.startswith(("pvc://", "local://")):
        yield InvalidURI(
            f"spec.storageUri: {uri} needs no download, because pods mount a claim directly; declare a BaseModel"
        )
    yield from _quantity_problems(spec, "modelSize")
    requested = RequestedSelection(tuple(spec.get("allowPatterns") or ()), tuple(spec.get("ignorePatterns") or ()))
    try:
        choose(requested, WHOLE)
    except ValueError as error:
        yield InvalidSelection(f"spec has an invalid file selection: {error}")
    template = ClaimTemplate(namespace, spec.get("pvcSpec") or {}, spec.get("pvSpec") or {})
    yield from (InvalidTemplate(problem) for problem in template.problems(csi_drivers))
    yield from (InvalidSelector(p) for p in selector_problems("spec.nodeSelector", spec.get("nodeSelector") or {}))


def _group_problems(spec: Spec) -> Iterator[LarderError]:
    yield from _quantity_problems(spec, "storageLimit")
    yield from _quantity_problems(spec, "bandwidthLimit", least=0)
    yield from _selector_errors("spec", spec)


def _group_warnings(spec: Spec) -> list[str]:
    if spec.get("nodeSelector") or (spec.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ):
        return []
    return ["spec has neither nodeSelector nor a required nodeAffinity: every node of the cluster is in this group"]


def _uri_problems(field: str, text: str, allowed: AllowedSources, *, cluster_scoped: bool) -> Iterator[LarderError]:
    try:
        uri = parse_declared(text, cluster_scoped=cluster_scoped)
    except InvalidURI as error:
        yield InvalidURI(f"{field}: {error}")
        return
    if refusal := allowed.refusal_of(uri):
        yield SourceNotAllowed(f"{field}: {refusal}")


def _token_problems(storage: Spec, *, cluster_scoped: bool) -> Iterator[AuthDenied]:
    key = (storage.get("parameters") or {}).get("secretKey")
    if not key or not storage.get("key"):
        return
    with suppress(InvalidURI):  # reported separately
        uri = parse_declared(storage.get("storageUri") or "", cluster_scoped=cluster_scoped)
        if why := why_never_a_token(uri, key):
            yield AuthDenied(
                f"spec.storage.parameters.secretKey names {key!r}, which is not sent as a token to {uri}: {why}; name "
                "a key that holds a token, or remove secretKey"
            )


def _quantity_problems(spec: Spec, field: str, least: int = 1) -> Iterator[AdmissionRefused]:
    value = spec.get(field)
    if value is None:
        return
    try:
        size = parse_quantity(value)
    except (ValueError, ArithmeticError) as error:
        yield InvalidQuantity(f"spec.{field}: {error}")
        return
    if not least <= size <= _MOST_BYTES:
        wrong = "small" if size < least else "large"
        yield InvalidQuantity(f"spec.{field}: {value} is too {wrong}; write a number with a unit, for example 500Gi")


def _selector_errors(field: str, spec: Spec) -> Iterator[AdmissionRefused]:
    checks: tuple[tuple[str, Callable[[str, Spec], Iterator[str]]], ...] = (
        ("nodeSelector", selector_problems),
        ("nodeAffinity", affinity_problems),
    )
    for name, problems_of in checks:
        for problem in problems_of(f"{field}.{name}", spec.get(name) or {}):
            yield InvalidSelector(problem)


def check_delete_model(title: str, users: Sequence[str], services: Sequence[str] = ()) -> None:
    """Raise InUse if pods use the model, or InferenceServices name it."""
    using = [_named(names, noun) for names, noun in ((services, "InferenceService"), (users, "pod")) if names]
    if using:
        raise InUse(f"{title} is used by {' and '.join(using)}; delete those first, or wait until they end")


def check_delete_group(name: str, caches: Iterable[CatalogModel]) -> None:
    """Raise InUse if caches still name the group."""
    naming = sorted(cache.name for cache in caches if name in cache.groups)
    if naming:
        kind = f"{CACHE_KIND}{'' if len(naming) == 1 else 's'}"
        raise InUse(f"{GROUP_KIND} {name} is used by {kind} {_shown(naming)}; delete those first")


def _named(users: Sequence[str], noun: str) -> str:
    return f"{len(users)} {noun}{'' if len(users) == 1 else 's'}: {_shown(sorted(users))}"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
