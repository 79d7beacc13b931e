"""Triggers services by changes of their Deployments; nothing is cached, because reconciles read live."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.kinds import SERVICE_LABEL
from shared.kube.objects import Key, Object


@dataclass(frozen=True, slots=True)
class DeploymentTrigger:
    """A sink for Deployments with our label, which triggers the service on a change or deletion.

    A Deployment has the name of its service; one with another name was labelled by hand.
    """

    enqueue: Callable[[ServiceKey], None]

    def replace(self, objects: Sequence[Object], unreadable: Collection[Key] = ()) -> None:
        """Trigger the services of all Deployments; a missed deletion is noticed with the next list of services."""
        del unreadable
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: Object) -> None:
        """Trigger the service of a Deployment."""
        if obj.metadata.labels.get(SERVICE_LABEL) == obj.metadata.name:
            self.enqueue(ServiceKey(obj.metadata.namespace, obj.metadata.name))

    def remove(self, key: Key) -> None:
        """Trigger the service of a deleted Deployment."""
        self.enqueue(ServiceKey(key.namespace, key.name))
