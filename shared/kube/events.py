"""Writes Kubernetes Events (`v1`), which users see when they describe an object."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.kube.objects import timestamp
from shared.kube.transport import Kube

_CLUSTER_NAMESPACE = "default"  # for Events on cluster-scoped objects
_LONGEST_NAME, _LONGEST_MESSAGE = 200, 1000


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


async def post_event(
    kube: Kube,
    about: EventSubject,
    reason: str,
    message: str,
    *,
    warn: bool,
    source: Mapping[str, str],
    moment: datetime,
) -> None:
    """Write an Event.

    Args:
        kube: The connection.
        about: The object.
        reason: A CamelCase word.
        message: The text, truncated to 1000 characters.
        warn: Whether it is a warning.
        source: The `component` that writes it, and its `host` if it runs on a node.
        moment: When it happened.

    Raises:
        KubeError: The Event was not written.
    """
    namespace = about.namespace or _CLUSTER_NAMESPACE
    stamp = timestamp(moment)
    unique = hashlib.sha256(f"{about.uid}{reason}{message}{moment.isoformat()}".encode()).hexdigest()[:16]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name[:_LONGEST_NAME].rstrip('.-')}.{unique}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        },
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "type": "Warning" if warn else "Normal",
        "source": dict(source),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    await kube.request("POST", f"/api/v1/namespaces/{namespace}/events", body=body)
