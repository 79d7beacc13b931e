"""Tells pods, and the objects that created them, why their claim is not there yet."""

from dataclasses import dataclass, field

from controller.manager.event_recorder import EventRecorder, EventSubject
from controller.volumes.keys import VolumeKey
from shared.api.core import Pod

_MOST_PODS = 5


@dataclass(slots=True)
class PodEvents:
    """Writes one Event for each new reason or message, on at most five pods and their owners."""

    events: EventRecorder
    _last: dict[VolumeKey, tuple[str, str]] = field(default_factory=dict, init=False)

    async def report(self, key: VolumeKey, pods: tuple[Pod, ...], reason: str, message: str) -> None:
        """ReportReason a reason, unless it was reported last."""
        if self._last.get(key) == (reason, message):
            return
        self._last[key] = (reason, message)
        subjects = [subject for pod in pods[:_MOST_PODS] for subject in _subjects(pod)]
        for subject in dict.fromkeys(subjects):
            await self.events.write(subject, reason, message, warn=True)

    def forget(self, key: VolumeKey) -> None:
        """Drop the last reason: the next one is news again."""
        self._last.pop(key, None)


def _subjects(pod: Pod) -> list[EventSubject]:
    meta = pod.metadata
    owners = (owner for owner in meta.owner_references if owner.get("controller"))
    return [
        EventSubject("v1", "Pod", meta.namespace, meta.name, meta.uid),
        *(EventSubject(o["apiVersion"], o["kind"], meta.namespace, o["name"], o["uid"]) for o in owners),
    ]
