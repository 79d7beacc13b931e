"""Reconciles one claim through which pods mount a model: observe, decide, act."""

from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import structlog

from controller.manager.actions import DeleteClaim, Requeue, Withdraw
from controller.manager.pod_events import PodEvents
from controller.provisioning.creations import Creations
from controller.provisioning.provision_queue import ProvisionOrder
from controller.volumes.act import VolumeActor
from controller.volumes.decide import Action, DeleteVolume, ListPods, Provision, ReportReason, decide
from controller.volumes.keys import VolumeKey
from controller.volumes.objects import VolumeManifest
from controller.volumes.observe import VolumeObserver
from controller.volumes.view import VolumeView

_log = structlog.get_logger()


@dataclass(slots=True)
class VolumeReconciler:
    """Drives a claim and its volume to the state that the pods of a namespace need."""

    observer: VolumeObserver
    actor: VolumeActor
    creations: Creations[VolumeKey]
    pod_events: PodEvents

    async def reconcile(self, key: VolumeKey) -> float | None:
        """Reconcile a claim; return the delay in seconds until the next run, or None."""
        view = self.observer.view(key, self.creations.failure(key))
        view = replace(view, position=self.creations.position(key))
        actions = decide(view)
        if ListPods() in actions:
            view = await self.observer.with_live_users(view)
            actions = decide(view)
        for action in actions:
            await self._apply(view, action)
        if not view.users:
            self.pod_events.forget(key)
            self.creations.forget_failure(key)
        if view.claim is None and view.volume is None and not view.users:
            self.observer.forget(key)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self.creations.clear()
        self.observer.clear()

    async def _apply(self, view: VolumeView, action: Action) -> None:
        match action:
            case Provision(manifest):
                self._request(view, manifest)
            case Withdraw():
                self.creations.withdraw(view.key)
            case DeleteClaim(claim):
                _log.info("claim_deleted", namespace=claim.namespace, claim=claim.name)
                await self.actor.delete_claim(claim)
            case DeleteVolume(volume):
                _log.info("volume_deleted", volume=volume.metadata.name)
                await self.actor.delete_volume(volume)
            case ReportReason(reason, message, warn):
                await self.pod_events.report(view.key, view.users, reason, message, warn=warn)
            case ListPods() | Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    def _request(self, view: VolumeView, manifest: VolumeManifest) -> None:
        key, created = view.key, view.users[0].metadata.creation_timestamp if view.users else ""
        self.creations.request(
            key,
            partial(self.actor.provision, manifest),
            ProvisionOrder(created, key.name),
            self.pod_events.forget,
            {"namespace": key.namespace, "claim": key.name, "snapshot": str(manifest.wanted)},
        )
