"""Tells pods, and the objects that created them, why their claim is not there yet."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.manager.event_recorder import EventRecorder, EventSubject
from controller.volumes.keys import VolumeKey
from shared.api.core import Pod

_MOST_PODS = 5
_AGAIN_S = 3600.0  # the API server forgets Events after an hour


@dataclass(slots=True)
class PodEvents:
    """Writes one Event an hour for each reason, on at most five pods of a claim and on their owners."""

    events: EventRecorder
    clock: Callable[[], float]
    _written: dict[VolumeKey, dict[tuple[str, str], float]] = field(default_factory=dict, init=False)

    async def report(self, key: VolumeKey, pods: tuple[Pod, ...], reason: str, message: str) -> None:
        """Report a reason on those of the pods and owners that it was not reported on within the hour."""
        written, now = self._written.setdefault(key, {}), self.clock()
        subjects = [subject for pod in pods[:_MOST_PODS] for subject in _subjects(pod)]
        for subject in dict.fromkeys(subjects):
            if now - written.get((subject.uid, reason), -_AGAIN_S) >= _AGAIN_S:
                written[subject.uid, reason] = now
                await self.events.write(subject, reason, message, warn=True)

    def forget(self, key: VolumeKey) -> None:
        """Drop what was reported on a claim: its next reason is news again."""
        self._written.pop(key, None)


def _subjects(pod: Pod) -> list[EventSubject]:
    meta = pod.metadata
    owners = (owner for owner in meta.owner_references if owner.get("controller"))
    return [
        EventSubject("v1", "Pod", meta.namespace, meta.name, meta.uid),
        *(EventSubject(o["apiVersion"], o["kind"], meta.namespace, o["name"], o["uid"]) for o in owners),
    ]
