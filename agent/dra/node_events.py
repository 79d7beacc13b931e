"""Events on this Node, for administrators who describe it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from shared.kube.errors import KubeError
from shared.kube.events import EventSubject, post_event
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
REASON = "ModelDevicesNotPublished"


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Writes Events; failures are only logged."""

    kube: Kube
    node_name: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def report(self, problem: str) -> None:
        """Write an Event that says why the node has no devices; none if `problem` is empty."""
        if not problem:
            return
        # kubelet uses the Node's name as uid in its Events; `kubectl describe node` shows Events with that uid
        node = EventSubject("v1", "Node", "", self.node_name, self.node_name)
        source = {"component": "larder-dra", "host": self.node_name}
        try:
            await post_event(self.kube, node, REASON, problem, warn=True, source=source, moment=self.now())
        except KubeError as error:
            _LOG.warning("event_lost", node=self.node_name, reason=REASON, error=str(error))
