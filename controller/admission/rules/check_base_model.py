"""Checks a BaseModel or ClusterBaseModel that is written: plain functions of data."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from controller.admission.errors import InvalidPath, InvalidSelection, InvalidSelector
from controller.admission.paths import checked_mount_path
from controller.admission.rules.field_problems import Spec, refuse, selector_errors, uri_problems
from controller.placement.allowed_sources import AllowedSources
from controller.placement.demand_of_kind import FOREIGN, LONG_AFFINITY
from shared.api.core import is_long
from shared.errors import AuthDenied, InvalidURI, LarderError
from shared.selection.choice import WHOLE, choose, requested_in_parameters
from shared.sources.credential_keys import why_never_a_token
from shared.uri.model_uri import parse_declared


def check_base_model(obj: Mapping[str, Any], allowed: AllowedSources, *, cluster_scoped: bool) -> list[str]:
    """Return warnings about a base model to be written; raise all problems with it in one message."""
    spec: Spec = obj.get("spec") or {}
    refuse(_problems(spec, allowed, cluster_scoped=cluster_scoped))
    return _warnings(spec)


def _problems(spec: Spec, allowed: AllowedSources, *, cluster_scoped: bool) -> Iterator[LarderError]:
    storage: Spec = spec.get("storage") or {}
    uri = storage.get("storageUri") or ""
    if not uri.startswith(FOREIGN):
        yield from uri_problems("spec.storage.storageUri", uri, allowed, cluster_scoped=cluster_scoped)
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
        yield from selector_errors("spec.storage", storage)


def _warnings(spec: Spec) -> list[str]:
    uri = (spec.get("storage") or {}).get("storageUri") or ""
    return [f"{uri} is ignored: Larder does not manage {FOREIGN} models"] if uri.startswith(FOREIGN) else []


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
