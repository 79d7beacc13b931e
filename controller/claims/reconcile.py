"""Reconciles one model on a claim: observe, decide, act."""

from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from controller.claims.act import ClaimActor
from controller.claims.decide import StartJob, WriteClaimStatus, decide
from controller.claims.observe import ClaimObserver
from controller.claims.view import ClaimView
from controller.manager.actions import Requeue, WriteSpec
from controller.models.finalizers import finalizer_of
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.kube.errors import NotFound, Refused

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ClaimReconciler:
    """Drives a model on a claim to its desired state."""

    observer: ClaimObserver
    actor: ClaimActor

    async def reconcile(self, key: ModelKey) -> float | None:
        """Reconcile a model; return the delay in seconds until the next run, or None.

        A write of the spec ends the run; the watch delivers the change and so triggers the next run.
        """
        declared = self.observer.cluster.declared(key)
        finalizer = finalizer_of(self.observer.cluster.ownership, key.kind)
        if declared is not None and finalizer not in declared.metadata.finalizers:
            await self.actor.models.add_finalizer(key, declared, finalizer)  # blocks its deletion while it has users
            return None
        view = await self.observer.view(key)
        if view is None or not isinstance(declared, BaseModel):
            return None
        return await self._apply(key, declared, view)

    async def _apply(self, key: ModelKey, declared: BaseModel, view: ClaimView) -> float | None:
        for action in decide(view, self.observer.now(), requires_label=self.observer.requires_label):
            match action:
                case StartJob():
                    try:
                        await self.actor.start_job(key, view, action)
                    except (Refused, NotFound) as error:
                        _log.warning("metadata_job_refused", model=view.demand.id, error=str(error))
                        return await self._apply(key, declared, replace(view, job_refused=str(error)))
                case WriteSpec(fields):
                    try:
                        if await self.actor.write_spec(key, declared, fields):
                            return None
                    except Refused as error:  # another product's kind may reject some values; the status holds them all
                        _log.warning("metadata_not_filled", model=view.demand.id, error=str(error))
                case WriteClaimStatus():
                    await self.actor.write_status(key, declared, view, action)
                case Requeue(after_s):
                    return after_s
                case _:
                    assert_never(action)
        return None
