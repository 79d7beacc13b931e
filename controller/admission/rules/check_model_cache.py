"""Checks a ModelCache that is written: plain functions of data."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from controller.admission.errors import InvalidSelection, InvalidSelector, InvalidTemplate
from controller.admission.rules.field_problems import Spec, quantity_problems, refuse, uri_problems
from controller.admission.rules.selectors import selector_problems
from controller.modelcaches.objects import ClaimTemplate
from controller.placement.allowed_sources import AllowedSources
from shared.errors import InvalidURI, LarderError
from shared.selection.choice import WHOLE, RequestedSelection, choose


def check_model_cache(
    obj: Mapping[str, Any], namespace: str, allowed: AllowedSources, csi_drivers: Collection[str]
) -> list[str]:
    """Return warnings about a ModelCache to be written, or raise like check_base_model."""
    refuse(_problems(obj.get("spec") or {}, namespace, allowed, csi_drivers))
    return []


def _problems(
    spec: Spec, namespace: str, allowed: AllowedSources, csi_drivers: Collection[str]
) -> Iterator[LarderError]:
    uri = spec.get("storageUri") or ""
    yield from uri_problems("spec.storageUri", uri, allowed, cluster_scoped=False)
    if uri.startswith(("pvc://", "local://")):
        yield InvalidURI(
            f"spec.storageUri: {uri} needs no download, because pods mount a claim directly; declare a BaseModel"
        )
    yield from quantity_problems(spec, "modelSize")
    requested = RequestedSelection(tuple(spec.get("allowPatterns") or ()), tuple(spec.get("ignorePatterns") or ()))
    try:
        choose(requested, WHOLE)
    except ValueError as error:
        yield InvalidSelection(f"spec has an invalid file selection: {error}")
    template = ClaimTemplate(namespace, spec.get("pvcSpec") or {}, spec.get("pvSpec") or {})
    yield from (InvalidTemplate(problem) for problem in template.problems(csi_drivers))
    yield from (InvalidSelector(p) for p in selector_problems("spec.nodeSelector", spec.get("nodeSelector") or {}))
