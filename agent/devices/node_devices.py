"""Reads and writes the devices of the agent's own Node: annotations, and extended resources in its status."""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from agent.devices.decide import RECORD, AdvertisedNode, DeviceAction, WriteNodeAnnotations, WriteNodeStatus
from shared.decode_errors import DECODE_ERRORS
from shared.devices.annotation import ANNOTATION
from shared.kube.errors import Malformed
from shared.kube.objects import Object
from shared.kube.transport import MERGE_PATCH, Kube


class _NodeStatus(msgspec.Struct, frozen=True):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class _NodeWithStatus(Object, frozen=True, kw_only=True):
    status: _NodeStatus = _NodeStatus()


class DevicesOfNode:
    """The part of the agent's own Node that the advertiser reads and writes."""

    def __init__(self, kube: Kube, name: str) -> None:
        self._kube, self._path = kube, f"/api/v1/nodes/{name}"

    async def read(self) -> AdvertisedNode:
        """Return the current Node. Raises KubeError."""
        return _node(await self._kube.request("GET", self._path))

    async def apply(self, action: DeviceAction, uid: str) -> AdvertisedNode:
        """Write to the Node, if it still has this UID, and return it. Raises KubeError."""
        match action:
            case WriteNodeAnnotations():
                return await self._patch(self._path, {"metadata": {"uid": uid, "annotations": dict(action.changes)}})
            case WriteNodeStatus():
                status = {"capacity": dict(action.capacity), "allocatable": dict(action.allocatable)}
                return await self._patch(f"{self._path}/status", {"metadata": {"uid": uid}, "status": status})
            case _:
                assert_never(action)

    async def _patch(self, path: str, body: Mapping[str, Any]) -> AdvertisedNode:
        return _node(await self._kube.request("PATCH", path, body=body, content_type=MERGE_PATCH))


def _node(body: bytes) -> AdvertisedNode:
    try:
        node = msgspec.json.decode(body, type=_NodeWithStatus)
    except DECODE_ERRORS as error:
        raise Malformed(f"the API server's response for the agent's Node is malformed: {error}") from error
    annotations, status = node.metadata.annotations, node.status
    return AdvertisedNode(
        node.metadata.uid,
        annotations.get(ANNOTATION),
        annotations.get(RECORD, ""),
        status.capacity,
        status.allocatable,
    )
