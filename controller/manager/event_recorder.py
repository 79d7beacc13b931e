"""Events on the objects that users look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from controller.manager.conditions import is_transition
from shared.api.kinds import Definition
from shared.api.meta import Condition, condition_of
from shared.kube.errors import KubeError
from shared.kube.events import EventSubject, post_event
from shared.kube.objects import Meta
from shared.kube.transport import Kube

_LONGEST = {"apiVersion": 317, "kind": 63, "name": 253, "uid": 64}
_SOURCE = {"component": "larder-controller"}
_log = structlog.get_logger()


def subject_of(namespace: str, reference: Mapping[str, Any]) -> EventSubject | None:
    """Return the object that an owner reference names; None if no object can have such a name.

    Anyone may write a reference, and the API server does not limit the length of its parts: without this check, an
    Event on it could take a megabyte, and so could the memory of it.
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
        """Write an Event on an object of one of our kinds; a failure is logged, not raised.

        Args:
            definition: The kind.
            about: The metadata of the object.
            reason: A CamelCase word.
            message: The text.
            warn: Whether it is a warning.
        """
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
        """Write an Event with the condition Ready if that changed.

        Args:
            definition: The kind.
            about: The metadata of the object.
            before: All conditions before the change.
            after: All conditions after it.
            warn: Whether it is a warning.
        """
        ready = condition_of(after, "Ready")
        if ready is not None and is_transition(condition_of(before, "Ready"), ready):
            await self.record(definition, about, ready.reason, ready.message, warn=warn)

    async def write(self, about: EventSubject, reason: str, message: str, *, warn: bool) -> None:
        """Write an Event on any object."""
        try:
            await post_event(self.kube, about, reason, message, warn=warn, source=_SOURCE, moment=self.now())
        except KubeError as error:
            _log.warning("event_lost", object=about.name, reason=reason, error=str(error))
