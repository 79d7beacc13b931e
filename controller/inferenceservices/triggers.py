"""What wakes services: the Deployments that they made. Nothing is remembered; turns read live."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.kinds import SERVICE_LABEL
from shared.kube.objects import Key, Object


@dataclass(frozen=True, slots=True)
class DeploymentTrigger:
    """A sink for Deployments with our label: the service is looked at when one changes, or goes.

    A Deployment has its service's name; one that has another was labelled by somebody else.
    """

    enqueue: Callable[[ServiceKey], None]

    def replace(self, objects: Sequence[Object], unreadable: Collection[Key] = ()) -> None:
        """Wake the services of all; one whose Deployment went unseen is looked at with its kind's next list."""
        del unreadable
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: Object) -> None:
        """Wake the service of a Deployment."""
        if obj.metadata.labels.get(SERVICE_LABEL) == obj.metadata.name:
            self.enqueue(ServiceKey(obj.metadata.namespace, obj.metadata.name))

    def remove(self, key: Key) -> None:
        """Wake the service of a Deployment that went."""
        self.enqueue(ServiceKey(key.namespace, key.name))
