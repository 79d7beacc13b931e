"""The shape of a v1.NodeAffinity: the API server stores any JSON in the fields of our kinds that hold one."""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.api.meta import ApiStruct


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """An expression that compares a label, or a field; numbers are no valid values, but comparable."""

    key: str = ""
    operator: str = ""
    values: list[str | int | float | bool] | None = None


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Expressions that must all match."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class RequiredNodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Terms, one of which must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The required part of a node affinity."""

    required_during_scheduling_ignored_during_execution: RequiredNodeSelector | None = None


def shape_problem(affinity: Mapping[str, Any]) -> str:
    """Return what in the required part of a node affinity is not of the right type, or an empty string."""
    try:
        msgspec.convert(affinity, NodeAffinity)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def readable(affinity: dict[str, Any]) -> dict[str, Any]:
    """Return an affinity; one of the wrong shape, which nothing could compare with a node, allows no node."""
    no_node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list[Any]()}}
    return no_node if shape_problem(affinity) else affinity
