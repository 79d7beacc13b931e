"""Records what pods wait for, as Events on the pods and on the objects that control them."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.event_recorder import subject_of
from controller.manager.limited_events import LimitedEvents
from shared.api.core import Pod
from shared.kube.events import EventSubject

MAX_PODS = 5


@dataclass(frozen=True, slots=True)
class PodEvents:
    """Reports on at most five pods of a key, and on their owners."""

    events: LimitedEvents

    async def report(
        self,
        key: Hashable,
        pods: tuple[Pod, ...],
        reason: str,
        message: str,
        *,
        state_key: str = "",
        warn: bool = True,
        owners: bool = True,
    ) -> None:
        """Report a reason on pods and their owners, except where it was reported within the last hour.

        Args:
            key: The key that the pods share; `forget` drops its earlier reports.
            pods: The pods.
            reason: The reason of the Event.
            message: Its message.
            state_key: Distinguishes states with the same reason; a new one is reported at once.
            warn: Whether it is a warning.
            owners: Whether the controllers of the pods get the event, too.
        """
        subjects = (subject for pod in pods[:MAX_PODS] for subject in _subjects(pod, owners=owners))
        await self.events.report(key, subjects, reason, message, state_key=state_key, warn=warn)

    def forget(self, key: Hashable) -> None:
        """Drop the reports for a key, so that its next reason is reported again."""
        self.events.forget(key)


def _subjects(pod: Pod, *, owners: bool) -> list[EventSubject]:
    meta = pod.metadata
    controllers = (owner for owner in meta.owner_references if owner.get("controller")) if owners else ()
    known = (subject_of(meta.namespace, owner) for owner in controllers)
    pod_itself = EventSubject("v1", "Pod", meta.namespace, meta.name, meta.uid)
    return [pod_itself, *(subject for subject in known if subject is not None)]
