"""Gathers what a decision on the claims of a pod needs; the only module of this folder that reads."""

from collections.abc import Callable
from dataclasses import dataclass

from controller.claimtemplates.templates import (
    ClaimOwner,
    InvalidTemplates,
    VolumeClaimTemplate,
    claim_body,
    claim_name,
    is_controlled,
)
from controller.provisioning.creation_failure import CreationFailure
from controller.replica_claims.annotation import read_templates
from controller.replica_claims.gate import CLAIMS_GATE, QUEUE_GATES, mounted_templates
from controller.replica_claims.identity import NoIdentity, controller_of, identity_of
from controller.replica_claims.keys import ReplicaPodKey, TemplateClaimKey
from controller.replica_claims.owners import OWNER_GONE, NoWorkload, WorkloadOwners
from controller.replica_claims.pods import ReplicaPods
from controller.replica_claims.view import ClaimState, ReplicaClaim, ReplicaPodView
from shared.api.core import PersistentVolumeClaim, Pod
from shared.kube.cache import Cache
from shared.kube.objects import Key

INVALID = "InvalidTemplates"


@dataclass(frozen=True, slots=True)
class ReplicaPodObserver:
    """Reads a pod's controllers live and everything else from caches."""

    pods: ReplicaPods
    claims: Cache[PersistentVolumeClaim]
    owners: WorkloadOwners
    failure_of: Callable[[TemplateClaimKey], CreationFailure | None]

    async def view(self, key: ReplicaPodKey) -> ReplicaPodView:
        """Return a pod with its claims. Raises KubeError."""
        pod = self.pods.get(Key(key.namespace, key.name))
        if pod is None:
            return ReplicaPodView(key)
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        if any(gate.startswith(QUEUE_GATES) for gate in gates):
            return ReplicaPodView(key, pod, gated=CLAIMS_GATE in gates, queued=True)
        claims, problem = await self._claims(pod)
        return ReplicaPodView(key, pod, gated=CLAIMS_GATE in gates, claims=claims, problem=problem)

    async def _claims(self, pod: Pod) -> tuple[tuple[ReplicaClaim, ...], tuple[str, str]]:
        """Return a pod's claims, or why it gets none. Its annotations and owners are untrusted."""
        meta = pod.metadata
        controller = controller_of(meta.owner_references)
        if controller is None:
            return (), (OWNER_GONE, "no workload controls the pod any longer, so nothing can own its claims")
        try:
            identity = identity_of(meta.name, meta.labels, meta.annotations, controller)
            templates = mounted_templates(
                read_templates(meta.annotations), identity, set(pod.spec.claims), meta.annotations
            )
        except (NoIdentity, InvalidTemplates) as error:
            return (), (INVALID, str(error))
        if not templates:
            return (), ("", "")
        owner = await self.owners.find_owner(meta.namespace, controller)
        if isinstance(owner, NoWorkload):
            return (), (owner.reason, owner.message)
        return tuple(self._claim(meta.namespace, template, identity, owner) for template in templates), ("", "")

    def _claim(self, namespace: str, template: VolumeClaimTemplate, identity: str, owner: ClaimOwner) -> ReplicaClaim:
        name = claim_name(template.name, identity)
        found = self.claims.get(Key(namespace, name))
        return ReplicaClaim(
            name,
            claim_body(template, namespace, identity, owner, {}),
            _state(found, owner),
            _holder(found),
            self.failure_of(TemplateClaimKey(namespace, name)),
        )


def _state(found: PersistentVolumeClaim | None, owner: ClaimOwner) -> ClaimState:
    if found is None:
        return ClaimState.MISSING
    if not is_controlled(found.metadata, owner.uid):
        return ClaimState.TAKEN
    return ClaimState.LEAVING if found.metadata.deletion_timestamp is not None else ClaimState.READY


def _holder(found: PersistentVolumeClaim | None) -> str:
    controller = controller_of(found.metadata.owner_references) if found is not None else None
    return f"{controller.get('kind')} {controller.get('name')}" if controller is not None else ""
