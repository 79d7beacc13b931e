"""The agent's own Node: its UID, and our labels and startup taint on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.reconciler.labels import own_labels
from agent.reconciler.startup_taint import is_startup_taint
from shared.decode_errors import DECODE_ERRORS
from shared.kube.errors import Conflict, Malformed, Refused
from shared.kube.objects import Object
from shared.kube.transport import MERGE_PATCH, Kube

_INVALID = 422


@dataclass(frozen=True, slots=True)
class OwnNodeState:
    """The UID of the Node, those of its labels that the agent owns, and whether it has our startup taint."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    startup_taint: bool = False


class _NodeSpec(msgspec.Struct, frozen=True):
    """The taints of a Node with all their fields, because a patch replaces the whole list."""

    taints: list[dict[str, Any]] = []


class _NodeWithTaints(Object, frozen=True, kw_only=True):
    """A Node as the agent reads it."""

    spec: _NodeSpec = _NodeSpec()


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The one Node that the agent may read and label."""

    kube: Kube
    name: str

    @property
    def path(self) -> str:
        """The API path of the Node."""
        return f"/api/v1/nodes/{self.name}"

    async def read(self) -> OwnNodeState:
        """Return the current state of the Node. Raises KubeError."""
        return _state(await self._read())

    async def label(self, uid: str, changes: Mapping[str, str | None]) -> OwnNodeState:
        """Set and remove labels in one patch.

        Raises:
            Conflict: The Node no longer has this UID; another took its name.
            KubeError: The patch failed.
        """
        return await self._patch({"metadata": {"uid": uid, "labels": dict(changes)}})

    async def remove_startup_taint(self, uid: str) -> OwnNodeState:
        """Remove our startup taint and leave all others.

        Raises:
            Conflict: The Node has changed since it was read, or no longer has this UID.
            KubeError: The read or the patch failed.
        """
        node = await self._read()
        kept = [taint for taint in node.spec.taints if not is_startup_taint(taint)]
        # a merge patch replaces the whole list, so nothing may have changed since the read
        version = {"uid": uid, "resourceVersion": node.metadata.resource_version}
        return await self._patch({"metadata": version, "spec": {"taints": kept}})

    async def _read(self) -> _NodeWithTaints:
        return _decoded(await self.kube.request("GET", self.path))

    async def _patch(self, body: Mapping[str, Any]) -> OwnNodeState:
        try:
            return _state(_decoded(await self.kube.request("PATCH", self.path, body=body, content_type=MERGE_PATCH)))
        except Refused as error:
            if error.code == _INVALID:  # UIDs are immutable, so this is how the server reports a replaced Node
                raise Conflict(str(error)) from error
            raise


def _decoded(body: bytes) -> _NodeWithTaints:
    try:
        return msgspec.json.decode(body, type=_NodeWithTaints)
    except DECODE_ERRORS as error:
        raise Malformed(f"the API server's response for the agent's Node is malformed: {error}") from error


def _state(node: _NodeWithTaints) -> OwnNodeState:
    tainted = any(is_startup_taint(taint) for taint in node.spec.taints)
    return OwnNodeState(node.metadata.uid, own_labels(node.metadata.labels), tainted)
