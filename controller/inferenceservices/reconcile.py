"""Reconciles one InferenceService: observe, decide, act, report."""

from dataclasses import dataclass, replace
from typing import assert_never

import msgspec
import structlog

from controller.inferenceservices.act import ServiceActor
from controller.inferenceservices.decide import ApplyObject, RemoveObject, conflicts, decide
from controller.inferenceservices.deployment import Deployment
from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.report import status_of
from controller.inferenceservices.view import ServiceView
from shared.kube.errors import NotFound, Refused
from shared.kube.objects import timestamp

_AGAIN_S = 10.0  # objects that block our name, and what pods wait for, are not watched
_STALLED_S = 60.0  # the Deployment is watched, and reports pods that start after all
_IDLE_S = 300.0  # the deletion of a Service or an autoscaler is not watched either
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ServiceReconciler:
    """Drives a service's objects to their desired state."""

    observer: ServiceObserver
    actor: ServiceActor

    async def reconcile(self, key: ServiceKey) -> float | None:
        """Reconcile a service; return the delay in seconds until the next run, None if there is nothing to manage."""
        view = await self.observer.view(key)
        if view is None or view.service.metadata.deletion_timestamp is not None:
            return None
        await self.actor.require_current(view.service)
        after, refused = await self._apply(view)
        stamp = timestamp(self.actor.now())
        await self.actor.write_status(view.service, status_of(after, refused, stamp))
        if refused or conflicts(view):
            return _AGAIN_S
        deployment = after.own_deployment
        if deployment is None or not deployment.is_short:
            return _IDLE_S
        return _STALLED_S if deployment.is_stalled else _AGAIN_S

    async def _apply(self, view: ServiceView) -> tuple[ServiceView, dict[str, str]]:
        """Return the view with the current Deployment, and the rejected objects by kind."""
        about, refused = view.service.metadata, dict[str, str]()
        for action in decide(view):
            match action:
                case ApplyObject() if action.kind in refused:
                    continue
                case ApplyObject():
                    try:
                        applied = await self.actor.apply(about, action)
                    except (Refused, NotFound) as error:
                        _log.warning("service_refused", service=f"{about.namespace}/{about.name}", error=str(error))
                        refused[action.kind] = str(error)
                        continue
                    if action.kind == "Deployment":
                        view = replace(view, deployment=msgspec.convert(applied, Deployment))
                case RemoveObject():
                    await self.actor.remove(about, action)
                case _:
                    assert_never(action)
        return view, refused
