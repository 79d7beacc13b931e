"""Reconciles one Model: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import assert_never

import structlog

from controller.jobs.live_reads import delete_job
from controller.manager.actions import Requeue, Withdraw
from controller.manager.poll_delay import poll_delay_s
from controller.modeloperator.act import ModelOperatorActor
from controller.modeloperator.actions import (
    Action,
    DeleteModelJob,
    GrowClaim,
    ProvisionClaim,
    StartModelDownload,
    WriteModelStatus,
)
from controller.modeloperator.decide import decide
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.view import ModelObjectView
from controller.provisioning.creations import Creations
from controller.provisioning.provision_queue import ProvisionOrder
from shared.api.model import Model
from shared.kube.errors import NotFound, Refused
from shared.kube.objects import Key

_log = structlog.get_logger()


@dataclass(slots=True)
class ModelOperatorReconciler:
    """Drives a Model to its desired state."""

    observer: ModelOperatorObserver
    actor: ModelOperatorActor
    creations: Creations[ModelObjectKey]
    now: Callable[[], datetime]

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self.creations.clear()
        await self.observer.progress.stop()

    async def reconcile(self, key: ModelObjectKey) -> float | None:
        """Reconcile a Model; return the delay in seconds until the next run, or None."""
        view = await self.observer.view(key, self.creations.failure(key), self.creations.position(key))
        if view is None:
            self.creations.forget_failure(key)
            self.creations.withdraw(key)
            self.observer.progress.forget(key)
            self.actor.metrics.forget(Key(key.namespace, key.name))
            return None
        delay_s = await self._decide(key, view)
        if delay_s is None:
            return None
        return poll_delay_s(delay_s, self.observer.waiting_in(key.namespace))  # claim and Job events trigger it anyway

    async def _decide(self, key: ModelObjectKey, view: ModelObjectView) -> float | None:
        actions = decide(view, self.now())
        for action in actions:
            try:
                await self._apply(key, view, action)
            except (Refused, NotFound) as error:
                if isinstance(action, GrowClaim):
                    _log.warning("claim_not_grown", model_object=f"{key.namespace}/{key.name}", error=str(error))
                    return await self._decide(key, replace(view, growth_refused=str(error)))
                if not isinstance(action, StartModelDownload):
                    raise
                _log.warning("download_job_refused", model_object=f"{key.namespace}/{key.name}", error=str(error))
                return await self._decide(key, replace(view, job_refused=str(error)))
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def _apply(self, key: ModelObjectKey, view: ModelObjectView, action: Action) -> None:
        match action:
            case ProvisionClaim():
                self._request(key, view.model)
            case Withdraw():
                self.creations.withdraw(key)
            case GrowClaim(size):
                await self.actor.grow(view.claim, size)
                _log.info("claim_growing", model_object=f"{key.namespace}/{key.name}", size=size)
            case StartModelDownload(download):
                await self.actor.require_current(view.model)  # the Job removes versions that the status does not name
                await self.actor.start_job(view.model, download)
                _log.info("download_job_created", model_object=f"{key.namespace}/{key.name}", wanted=download.wanted)
            case DeleteModelJob():
                if view.job is not None:
                    await self.actor.require_current(view.model)
                    await delete_job(self.actor.kube, view.job.metadata)
            case WriteModelStatus():
                await self.actor.write_status(view.model, action)
            case Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    async def _provision(self, key: ModelObjectKey) -> None:
        """Create the claim of a Model as its spec is now, which may have changed in the queue; none if it is gone."""
        model = self.observer.models.get(Key(key.namespace, key.name))
        if model is not None:
            await self.actor.provision(model)

    def _request(self, key: ModelObjectKey, model: Model) -> None:
        self.creations.request(
            key,
            partial(self._provision, key),
            ProvisionOrder(model.metadata.creation_timestamp, key.name),
            self.creations.enqueue,
            {"model": f"{key.namespace}/{key.name}"},
        )
