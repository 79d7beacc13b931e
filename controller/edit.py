"""Writes that rest on the version that the decision was made from."""

from collections.abc import Mapping
from typing import Any

from shared.kube.edit import update
from shared.kube.errors import KubeError
from shared.kube.objects import Meta
from shared.kube.transport import Kube


class StaleError(KubeError):
    """The object is newer than what was decided on; the reflector will bring it."""


async def replace_part(kube: Kube, path: str, seen: Meta, part: str, value: Mapping[str, Any]) -> None:
    """Set `spec` or `status` of the object that was seen, keeping keys of it that we do not know.

    `path` ends in /status for that part. Raises StaleError, NotFound, KubeError.
    """

    def change(found: dict[str, Any]) -> dict[str, Any]:
        _require_seen(found, seen, path)
        return found | {part: value}

    await update(kube, path, change)


async def change_finalizers(kube: Kube, path: str, seen: Meta, finalizers: list[str]) -> None:
    """Set the finalizers of the object that was seen. Raises StaleError, NotFound, KubeError."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        _require_seen(found, seen, path)
        return found | {"metadata": found["metadata"] | {"finalizers": finalizers}}

    await update(kube, path, change)


def _require_seen(found: dict[str, Any], seen: Meta, path: str) -> None:
    if found["metadata"]["resourceVersion"] != seen.resource_version:
        raise StaleError(f"{path} changed since it was read")
