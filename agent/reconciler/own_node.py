"""The agent's own Node: its UID and our labels on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from agent.reconciler.labels import own_labels
from shared.kube.errors import Conflict, Malformed, Refused
from shared.kube.objects import Object
from shared.kube.transport import MERGE_PATCH, Kube

_INVALID = 422


@dataclass(frozen=True, slots=True)
class OwnNodeState:
    """The UID of the Node and its labels of our two families."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)


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
        return _decoded(await self.kube.request("GET", self.path))

    async def label(self, uid: str, changes: Mapping[str, str | None]) -> OwnNodeState:
        """Set and remove labels in one patch.

        Raises:
            Conflict: The Node no longer has this UID; another took its name.
            KubeError: The patch failed.
        """
        body = {"metadata": {"uid": uid, "labels": dict(changes)}}
        try:
            return _decoded(await self.kube.request("PATCH", self.path, body=body, content_type=MERGE_PATCH))
        except Refused as error:
            if error.code == _INVALID:  # UIDs are immutable, so this is how the server reports a replaced Node
                raise Conflict(str(error)) from error
            raise


def _decoded(body: bytes) -> OwnNodeState:
    try:
        found = msgspec.json.decode(body, type=Object).metadata
    except msgspec.MsgspecError as error:
        raise Malformed(f"the API server's response for the agent's Node is malformed: {error}") from error
    return OwnNodeState(found.uid, own_labels(found.labels))
