"""Events on this Node, for administrators who look at it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from shared.kube.errors import KubeError
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
NAMESPACE = "default"  # of Events on Nodes
REASON = "ModelDevicesNotPublished"
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Writes Events; a lost one is only logged."""

    kube: Kube
    node_name: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def report(self, problem: str) -> None:
        """Write why the node has no devices; an empty text writes nothing."""
        if not problem:
            return
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        unique = hashlib.sha256(f"{self.node_name}{problem}{stamp}".encode()).hexdigest()[:16]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"larder-dra.{unique}", "namespace": NAMESPACE},
            # kubelet's Events on its Node carry its name as uid, and kubectl shows those
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": self.node_name},
            "reason": REASON,
            "message": problem[:_LONGEST],
            "type": "Warning",
            "source": {"component": "larder-dra", "host": self.node_name},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self.kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/events", body=body)
        except KubeError as error:
            _LOG.warning("event_lost", node=self.node_name, reason=REASON, error=str(error))
