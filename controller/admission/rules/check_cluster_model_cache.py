"""Checks a ClusterModelCache that is written: plain functions of data."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from controller.admission.errors import InvalidTemplate, UnknownGroup
from controller.admission.rules.field_problems import Spec, quantity_problems, refuse, uri_problems
from controller.placement.allowed_sources import EVERY_SOURCE
from controller.volumes.objects import VolumeTemplate
from shared.api.kinds import NODE_GROUP
from shared.errors import InvalidURI, LarderError


def named_groups(spec: Spec) -> list[str]:
    """Return the groups that a cache names, without duplicates."""
    return list(dict.fromkeys(g for g in (spec.get("nodeGroup"), *(spec.get("nodeGroups") or [])) if g))


def check_cache(obj: Mapping[str, Any], groups: Collection[str]) -> list[str]:
    """Return warnings about a cache to be written, or raise like check_base_model; `groups` are the existing groups."""
    refuse(_problems(obj.get("spec") or {}, groups))
    return []


def _problems(spec: Spec, groups: Collection[str]) -> Iterator[LarderError]:
    uri = spec.get("storageUri") or ""
    yield from uri_problems("spec.storageUri", uri, EVERY_SOURCE, cluster_scoped=True)
    if uri.startswith("pvc://"):
        yield InvalidURI(
            "spec.storageUri: a claim needs no cache, because pods mount it directly; declare a BaseModel or "
            f"ClusterBaseModel with storageUri {uri}"
        )
    yield from quantity_problems(spec, "modelSize")
    template = VolumeTemplate(spec.get("pvSpec") or {}, spec.get("pvcSpec") or {})
    yield from (InvalidTemplate(problem) for problem in template.problems())
    known = f"write one of {', '.join(sorted(groups)[:10])}" if groups else "none exists yet; create one first"
    for name in named_groups(spec):
        if name not in groups:
            yield UnknownGroup(f"spec.nodeGroup: there is no {NODE_GROUP.kind} {name!r}; {known}")
    if not named_groups(spec):
        yield UnknownGroup(f"spec.nodeGroup: no {NODE_GROUP.kind} is named; {known}")
