"""Reconciles one claim through which pods mount a model: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

import structlog

from controller.manager.actions import Requeue
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
from controller.volumes.pod_events import PodEvents
from controller.volumes.templates import VolumeManifest
from controller.volumes.view import CreationFailure, VolumeView
from shared.backoff import Backoff
from shared.kube.errors import KubeError

_REFUSED = Backoff(first_s=30, cap_s=120)
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
    _failures: dict[VolumeKey, tuple[KubeError, float, int]] = field(default_factory=dict, init=False)

    async def reconcile(self, key: VolumeKey) -> float | None:
        """Reconcile a claim; return the delay in seconds until the next run, or None."""
        view = self.observer.view(key, self._failure(key))
        actions = decide(view)
        if ListPods() in actions:
            view = await self.observer.with_live_users(view)
            actions = decide(view)
        for action in actions:
            await self._apply(view, action)
        if not view.users:
            self.pod_events.forget(key)
            self._failures.pop(key, None)
        if view.claim is None and view.volume is None and not view.users:
            self.observer.forget(key)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def stop(self) -> None:
        """Drop what only this leadership knew."""
        self._failures.clear()

    async def _apply(self, view: VolumeView, action: Action) -> None:
        match action:
            case Provision(manifest):
                self.provisioner.request(self._request(view.key, manifest))
            case Withdraw():
                self.provisioner.withdraw(view.key)
            case DeleteClaim(claim):
                _log.info("claim_deleted", namespace=claim.namespace, claim=claim.name)
                await self.actor.delete_claim(claim)
            case DeleteVolume(volume):
                _log.info("volume_deleted", volume=volume.metadata.name)
                await self.actor.delete_volume(volume)
            case ReportReason(reason, message):
                await self.pod_events.report(view.key, view.users, reason, message)
            case ListPods() | Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    def _request(self, key: VolumeKey, manifest: VolumeManifest) -> ProvisionRequest:
        return ProvisionRequest(
            key,
            partial(self.actor.provision, manifest),
            on_failure=lambda error: self._failed(key, error),
            on_created=lambda: self._created(key, manifest),
        )

    def _created(self, key: VolumeKey, manifest: VolumeManifest) -> None:
        self.pod_events.forget(key)
        self._failures.pop(key, None)
        _log.info("claim_created", namespace=key.namespace, claim=key.name, snapshot=str(manifest.wanted))

    def _failed(self, key: VolumeKey, error: KubeError) -> None:
        _log.warning("claim_not_created", namespace=key.namespace, claim=key.name, error=str(error))
        count = self._failures[key][2] + 1 if key in self._failures else 1
        self._failures[key] = (error, self.clock() + _REFUSED.delay_s(count), count)
        self.enqueue(key)

    def _failure(self, key: VolumeKey) -> CreationFailure | None:
        """Return the last failure; a refused request is made again after a while, any other waits in the queue."""
        if key not in self._failures:
            return None
        error, due, _ = self._failures[key]
        if error.retryable:
            return CreationFailure(str(error), retry_s=0)
        retry_s = due - self.clock()
        return CreationFailure(str(error), retry_s) if retry_s > 0 else None
