"""Detects fields missing from a served CRD: an older chart's definition silently prunes what we write."""

from collections.abc import Iterator, Mapping
from typing import Any

_MAX_NAMED = 5


def missing_fields_message(name: str, wanted: Mapping[str, Any], served: Mapping[str, Any]) -> str:
    """Return what to do about a definition that prunes fields, or an empty string if it has them all.

    `wanted` and `served` are CustomResourceDefinitions; the served version of the same name is compared.
    """
    fields = [f for version in _versions(wanted) for f in _of_version(version, served)]
    if not fields:
        return ""
    named = ", ".join(fields[:_MAX_NAMED]) + (", ..." if len(fields) > _MAX_NAMED else "")
    return (
        f"the CustomResourceDefinition {name} is older than this controller and drops fields that it writes "
        f"({named}); upgrade the larder-crds chart"
    )


def _of_version(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> Iterator[str]:
    for version in _versions(served):
        if version.get("name") == wanted["name"]:
            yield from _missing(_schema(wanted), _schema(version), "")


def _missing(wanted: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of the properties that would be pruned, the outermost of each branch."""
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    has = served.get("properties") or {}
    for name, schema in (wanted.get("properties") or {}).items():
        if name in has:
            yield from _missing(schema, has[name], f"{path}.{name}")
        elif not isinstance(served.get("additionalProperties"), Mapping):
            yield f"{path}.{name}"
    for inner in ("items", "additionalProperties"):
        if isinstance(wanted.get(inner), Mapping) and isinstance(served.get(inner), Mapping):
            yield from _missing(wanted[inner], served[inner], f"{path}[]")


def _versions(definition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return (definition.get("spec") or {}).get("versions") or []


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}
