"""Reconciles one pod with claims from templates: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

import structlog

from controller.claimtemplates.templates import ClaimOwner
from controller.manager.actions import Requeue
from controller.manager.event_recorder import subject_of
from controller.manager.limited_events import LimitedEvents
from controller.manager.patch_pod import remove_gate
from controller.provisioning.failed_creations import FailedCreations
from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner
from controller.replica_claims.act import ReplicaClaimActor
from controller.replica_claims.decide import Action, CreateClaim, ReleasePod, ReportWait, WithdrawPending, decide
from controller.replica_claims.gate import CLAIMS_GATE
from controller.replica_claims.identity import controller_of
from controller.replica_claims.keys import ReplicaPodKey, TemplateClaimKey
from controller.replica_claims.observe import ReplicaPodObserver
from controller.replica_claims.state_metrics import ReplicaPodMetrics
from controller.replica_claims.view import ReplicaClaim
from shared.api.core import Pod
from shared.json_object import Json
from shared.kube.errors import KubeError
from shared.kube.events import EventSubject
from shared.kube.objects import Key

_log = structlog.get_logger()


@dataclass(slots=True)
class ReplicaPodReconciler:
    """Requests a pod's claims, and removes its scheduling gate once they exist."""

    observer: ReplicaPodObserver
    actor: ReplicaClaimActor
    provisioner: Provisioner
    events: LimitedEvents
    metrics: ReplicaPodMetrics
    failures: FailedCreations[TemplateClaimKey]
    enqueue: Callable[[ReplicaPodKey], None]
    _requested: dict[ReplicaPodKey, dict[TemplateClaimKey, Json]] = field(default_factory=dict, init=False)

    async def reconcile(self, key: ReplicaPodKey) -> float | None:
        """Reconcile a pod; return the delay in seconds until the next run, or None."""
        view = await self.observer.view(key)
        self.metrics.note(view)
        actions = decide(view)
        for action in actions:
            await self._apply(key, action)
        if view.pod is None:
            self.events.forget(key)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self._requested.clear()
        self.failures.clear()
        self.metrics.clear()
        self.observer.owners.clear()

    async def _apply(self, key: ReplicaPodKey, action: Action) -> None:
        match action:
            case CreateClaim(claim, created):
                self._request(key, claim, ProvisionOrder(created, key.name))
            case WithdrawPending():
                self._withdraw(key)
            case ReleasePod(pod):
                await self._release(key, pod)
            case ReportWait():
                await self._report(key, action)
            case Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    def _request(self, key: ReplicaPodKey, claim: ReplicaClaim, order: ProvisionOrder) -> None:
        wanted, requested = TemplateClaimKey(key.namespace, claim.name), self._requested.setdefault(key, {})
        if requested.get(wanted, claim.body) != claim.body:
            self.provisioner.withdraw(wanted)  # the pod's annotation has changed, or another pod has its name
        requested[wanted] = claim.body
        self.provisioner.request(
            ProvisionRequest(
                wanted,
                key.flow,
                partial(self.actor.create, claim),
                on_failure=lambda error: self._failed(key, wanted, error),
                on_created=lambda: self._created(key, wanted),
                order=order,
            )
        )

    def _withdraw(self, key: ReplicaPodKey) -> None:
        """Withdraw the pod's requests, and requeue other pods that wait for the same claims."""
        for claim in self._requested.pop(key, ()):
            self.provisioner.withdraw(claim)
            self.failures.forget(claim)
            for other in self.observer.pods.of_claim(Key(claim.namespace, claim.name)):
                if (successor := ReplicaPodKey(*other)) != key:
                    self.enqueue(successor)

    async def _release(self, key: ReplicaPodKey, pod: Pod) -> None:
        self._requested.pop(key, None)
        if await remove_gate(self.actor.kube, pod, CLAIMS_GATE):
            _log.info("claims_gate_removed", namespace=key.namespace, pod=key.name)

    async def _report(self, key: ReplicaPodKey, report: ReportWait) -> None:
        """Report warnings on the pod; report everything on its workload, once an hour for all of its pods."""
        meta = report.pod.metadata
        if report.warn:
            pod = EventSubject("v1", "Pod", meta.namespace, meta.name, meta.uid)
            await self.events.report(key, (pod,), report.reason, report.message)
        for subject in await self._controllers(report.pod):
            await self.events.report(subject, (subject,), report.reason, report.message, warn=report.warn)

    async def _controllers(self, pod: Pod) -> list[EventSubject]:
        """Return a pod's controller and the workload that owns its claims, or one object if they are the same."""
        controller, namespace = controller_of(pod.metadata.owner_references), pod.metadata.namespace
        if controller is None:
            return []
        found = await self.observer.owners.find_owner(namespace, controller)
        top = [found.reference()] if isinstance(found, ClaimOwner) else []
        known = dict.fromkeys(subject_of(namespace, reference) for reference in (controller, *top))
        return [subject for subject in known if subject is not None]

    def _created(self, key: ReplicaPodKey, claim: TemplateClaimKey) -> None:
        self.failures.forget(claim)
        self.events.forget(key)
        _log.info("replica_claim_created", namespace=claim.namespace, claim=claim.name)

    def _failed(self, key: ReplicaPodKey, claim: TemplateClaimKey, error: KubeError) -> None:
        _log.warning("replica_claim_not_created", namespace=claim.namespace, claim=claim.name, error=str(error))
        self.failures.note(claim, error)
        self.enqueue(key)
