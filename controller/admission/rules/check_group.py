"""Checks a ModelCacheNodeGroup that is written: plain functions of data."""

from collections.abc import Iterator, Mapping
from typing import Any

from controller.admission.rules.field_problems import Spec, quantity_problems, refuse, selector_errors
from shared.errors import LarderError


def check_group(obj: Mapping[str, Any]) -> list[str]:
    """Return warnings about a node group to be written, or raise like check_base_model."""
    spec: Spec = obj.get("spec") or {}
    refuse(_problems(spec))
    return _warnings(spec)


def _problems(spec: Spec) -> Iterator[LarderError]:
    yield from quantity_problems(spec, "storageLimit")
    yield from quantity_problems(spec, "bandwidthLimit", least=0)
    yield from selector_errors("spec", spec)


def _warnings(spec: Spec) -> list[str]:
    if spec.get("nodeSelector") or (spec.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ):
        return []
    return ["spec has neither nodeSelector nor a required nodeAffinity: every node of the cluster is in this group"]
