"""Reconciles one claim through which pods mount a model: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import structlog

from controller.manager.actions import Requeue
from controller.manager.failed_creations import FailedCreations
from controller.manager.pod_events import PodEvents
from controller.manager.provision_queue import ProvisionOrder
from controller.manager.provisioner import Provisioner, ProvisionRequest
from controller.volumes.act import VolumeActor
from controller.volumes.decide import (
    Action,
    DeleteClaim,
    DeleteVolume,
    ListPods,
    Provision,
    ReportReason,
    Withdraw,
    decide,
)
from controller.volumes.keys import VolumeKey
from controller.volumes.observe import VolumeObserver
from controller.volumes.templates import VolumeManifest
from controller.volumes.view import VolumeView
from shared.kube.errors import KubeError

_log = structlog.get_logger()


@dataclass(slots=True)
class VolumeReconciler:
    """Drives a claim and its volume to what the pods of a namespace need."""

    observer: VolumeObserver
    actor: VolumeActor
    provisioner: Provisioner
    pod_events: PodEvents
    enqueue: Callable[[VolumeKey], None]
    clock: Callable[[], float]
    _failures: FailedCreations[VolumeKey] = field(init=False)

    def __post_init__(self) -> None:
        self._failures = FailedCreations(self.clock)

    async def reconcile(self, key: VolumeKey) -> float | None:
        """Reconcile a claim; return the delay in seconds until the next run, or None."""
        view = self.observer.view(key, self._failures.of(key))
        view = replace(view, position=self.provisioner.position(key))
        actions = decide(view)
        if ListPods() in actions:
            view = await self.observer.with_live_users(view)
            actions = decide(view)
        for action in actions:
            await self._apply(view, action)
        if not view.users:
            self.pod_events.forget(key)
            self._failures.forget(key)
        if view.claim is None and view.volume is None and not view.users:
            self.observer.forget(key)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def stop(self) -> None:
        """Drop what only this leadership knew."""
        self._failures.clear()

    async def _apply(self, view: VolumeView, action: Action) -> None:
        match action:
            case Provision(manifest):
                self.provisioner.request(self._request(view, manifest))
            case Withdraw():
                self.provisioner.withdraw(view.key)
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

    def _request(self, view: VolumeView, manifest: VolumeManifest) -> ProvisionRequest:
        key, created = view.key, view.users[0].metadata.creation_timestamp if view.users else ""
        return ProvisionRequest(
            key,
            key.flow,
            partial(self.actor.provision, manifest),
            on_failure=lambda error: self._failed(key, error),
            on_created=lambda: self._created(key, manifest),
            order=ProvisionOrder(created, key.name),
        )

    def _created(self, key: VolumeKey, manifest: VolumeManifest) -> None:
        self.pod_events.forget(key)
        self._failures.forget(key)
        _log.info("claim_created", namespace=key.namespace, claim=key.name, snapshot=str(manifest.wanted))

    def _failed(self, key: VolumeKey, error: KubeError) -> None:
        _log.warning("claim_not_created", namespace=key.namespace, claim=key.name, error=str(error))
        self._failures.note(key, error)
        self.enqueue(key)
