"""Writes with optimistic locking on the resourceVersion that the decision was based on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from shared.api.meta import ABNORMAL
from shared.kube.collection import get_object
from shared.kube.edit import update
from shared.kube.errors import KubeError
from shared.kube.objects import Meta, Object
from shared.kube.transport import Kube


class StaleError(KubeError):
    """The object has changed since it was read; the watch will deliver the new version."""


async def require_current(kube: Kube, path: str, seen: Meta) -> None:
    """Check that an object is still the one that was read, before writes to others that cannot be undone.

    The cache of a new leader may be older than what the previous leader did.

    Raises:
        StaleError: The object has changed since it was read.
        KubeError: The request failed.
    """
    found = await get_object(kube, path, Object)
    if found is None or (found.metadata.uid, found.metadata.resource_version) != (seen.uid, seen.resource_version):
        raise StaleError(f"{path} changed since it was read")


async def replace_part(kube: Kube, path: str, seen: Meta, part: str, value: msgspec.Struct) -> bool:
    """Replace `spec` or `status` of the object that was read; return whether that changed it.

    Fields unknown to the Struct, and conditions of other types, belong to others and are preserved. Reconciling and
    Stalled are removed unless the value contains them.

    Args:
        kube: The API client.
        path: API path of the object; for the status it ends in `/status`.
        seen: Metadata of the version that was read.
        part: `spec` or `status`.
        value: The new content.

    Raises:
        StaleError: The object has changed since it was read.
        NotFound: The object is gone.
        KubeError: The request failed.
    """

    def change(found: dict[str, Any]) -> dict[str, Any]:
        return found | {part: merged(found.get(part) or {}, value)}

    return await _change_seen(kube, path, seen, change)


def merged(found: Mapping[str, Any], value: msgspec.Struct) -> dict[str, Any]:
    """Return the value as JSON, merged over the fields of `found` that it does not know."""
    names = {field.encode_name for field in msgspec.structs.fields(value)}
    wanted: dict[str, Any] = msgspec.to_builtins(value)
    if "conditions" in names and (found.get("conditions") or wanted.get("conditions")):
        wanted["conditions"] = _conditions(found.get("conditions") or [], wanted.get("conditions") or [])
    return {name: other for name, other in found.items() if name not in names} | wanted


def _conditions(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    before = {condition.get("type"): condition for condition in found}
    ours = {condition["type"]: {**before.get(condition["type"], {}), **condition} for condition in wanted}
    others = (dict(condition) for kind, condition in before.items() if kind not in ours and kind not in ABNORMAL)
    return [*ours.values(), *others]


async def change_spec(kube: Kube, path: str, seen: Meta, fields: Mapping[str, Any]) -> bool:
    """Set fields of the spec of the object that was read, removing those that are None; return whether it changed.

    Raises:
        StaleError: The object has changed since it was read.
        NotFound: The object is gone.
        KubeError: The request failed.
    """

    def change(found: dict[str, Any]) -> dict[str, Any]:
        spec = {**(found.get("spec") or {}), **fields}
        return found | {"spec": {name: value for name, value in spec.items() if value is not None}}

    return await _change_seen(kube, path, seen, change)


async def change_annotation(kube: Kube, path: str, seen: Meta, name: str, value: str) -> None:
    """Set an annotation on the object that was read. Raises StaleError, NotFound, KubeError."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        annotations = (found["metadata"].get("annotations") or {}) | {name: value}
        return found | {"metadata": found["metadata"] | {"annotations": annotations}}

    await _change_seen(kube, path, seen, change)


async def change_finalizers(kube: Kube, path: str, seen: Meta, finalizers: list[str]) -> None:
    """Set the finalizers of the object that was read. Raises StaleError, NotFound, KubeError."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        return found | {"metadata": found["metadata"] | {"finalizers": finalizers}}

    await _change_seen(kube, path, seen, change)


async def _change_seen(kube: Kube, path: str, seen: Meta, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Change the object if it is still the one that was read; return whether that changed it."""

    def change_if_seen(found: dict[str, Any]) -> dict[str, Any]:
        if found["metadata"]["resourceVersion"] != seen.resource_version:
            raise StaleError(f"{path} changed since it was read")
        return change(found)

    written = await update(kube, path, change_if_seen)
    return bool(written["metadata"]["resourceVersion"] != seen.resource_version)
