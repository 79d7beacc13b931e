"""Events on the objects that users look at."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from controller.manager.conditions import is_transition
from shared.api.kinds import Definition
from shared.api.meta import Condition, condition_of
from shared.kube.errors import KubeError
from shared.kube.objects import Meta
from shared.kube.transport import Kube

_LONGEST = {"apiVersion": 317, "kind": 63, "name": 253, "uid": 64}
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def subject_of(namespace: str, reference: Mapping[str, Any]) -> EventSubject | None:
    """Return the object that an owner reference names; None if no object can have such a name.

    Anyone may write a reference, and the API server limits the length of none of its parts: Events on it, and the
    memory of them, would have a megabyte each.
    """
    parts = {part: str(reference.get(part, "")) for part in _LONGEST}
    if any(len(parts[part]) > longest for part, longest in _LONGEST.items()):
        return None
    return EventSubject(parts["apiVersion"], parts["kind"], namespace, parts["name"], parts["uid"])


@dataclass(frozen=True, slots=True)
class EventRecorder:
    """Writes one Event per transition; a lost Event is only logged, because the status carries the same information."""

    kube: Kube
    now: Callable[[], datetime]

    async def record(self, definition: Definition, about: Meta, reason: str, message: str, *, warn: bool) -> None:
        """Write an Event on an object of one of our kinds."""
        version = f"{definition.group}/{definition.version}"
        subject = EventSubject(version, definition.kind, about.namespace, about.name, about.uid)
        await self.write(subject, reason, message, warn=warn)

    async def record_ready(
        self,
        definition: Definition,
        about: Meta,
        before: Sequence[Condition],
        after: Sequence[Condition],
        *,
        warn: bool,
    ) -> None:
        """Write an Event with the condition Ready if that changed; `before` and `after` are all conditions."""
        ready = condition_of(after, "Ready")
        if ready is not None and is_transition(condition_of(before, "Ready"), ready):
            await self.record(definition, about, ready.reason, ready.message, warn=warn)

    async def write(self, about: EventSubject, reason: str, message: str, *, warn: bool) -> None:
        """Write an Event on any object."""
        namespace = about.namespace or "default"
        moment = self.now()
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        unique = hashlib.sha256(f"{about.uid}{reason}{message}{moment.isoformat()}".encode()).hexdigest()[:16]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name[:200].rstrip('.-')}.{unique}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            "reason": reason,
            "message": message[:1000],
            "type": "Warning" if warn else "Normal",
            "source": {"component": "larder-controller"},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self.kube.request("POST", f"/api/v1/namespaces/{namespace}/events", body=body)
        except KubeError as error:
            _log.warning("event_lost", object=about.name, reason=reason, error=str(error))
