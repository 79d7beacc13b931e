"""Writes Events on services about why their pods have no cached model."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from controller.manager.limited_events import LimitedEvents
from controller.uncached_services.keys import UncachedServiceKey
from controller.uncached_services.pods import UncachedPods
from controller.uncached_services.services import KINDS
from shared.kube.collection import list_metadata
from shared.kube.errors import NotFound
from shared.kube.events import EventSubject
from shared.kube.transport import Kube

NOT_CACHED = "ModelNotCached"
_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class UncachedServiceReconciler:
    """Reads the service, because an Event needs its uid, and writes one Event an hour for each reason."""

    kube: Kube
    pods: Mapping[str, UncachedPods]
    events: LimitedEvents

    async def reconcile(self, key: UncachedServiceKey) -> float | None:
        """Report the reasons of a service's pods. Raises KubeError."""
        reasons = self.pods[key.kind].reasons_of(key)
        subject = await self._subject(key) if reasons else None
        if subject is None:
            return None
        for reason, pod in islice(reasons.items(), _MAX_REASONS):
            message = f"pod {pod} downloads its own copy of the model, because no cache could give it one: {reason}"
            await self.events.report(key, (subject,), NOT_CACHED, message, state_key=reason)
        return None

    async def _subject(self, key: UncachedServiceKey) -> EventSubject | None:
        """Return the service, or None if it is gone."""
        query = {"fieldSelector": f"metadata.name={key.name}"}  # the controller has the right to list, not to get
        for path in KINDS[key.kind].paths:
            version, _, plural = path.rpartition("/")
            try:
                found = await list_metadata(self.kube, f"{version}/namespaces/{key.namespace}/{plural}", query)
            except NotFound:
                continue  # a version that is not served
            api_version = version.removeprefix("/apis/")
            subjects = [EventSubject(api_version, key.kind, key.namespace, key.name, s.metadata.uid) for s in found]
            return next(iter(subjects), None)
        return None
