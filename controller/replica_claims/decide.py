"""Decides the next steps for a pod with claims from templates. No input or output, no clock.

    gated ──── claims created, one by one ────► all exist ──── gate removed ────► scheduled, then bound

A claim counts as soon as it exists, because many storage classes bind it only once its pod has a node. A claim that is
deleted before the pod starts is recreated. Larder never deletes a claim: Kubernetes does, with the workload that owns
it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from controller.manager.actions import Requeue
from controller.replica_claims.view import ClaimState, ReplicaClaim, ReplicaPodView
from shared.api.core import Pod

WAITING = "WaitingForClaims"
NAME_CONFLICT = "NameConflict"
TERMINATING = "ClaimTerminating"
REFUSED = "ClaimRefused"
DELAYED = "ClaimDelayed"
_REQUEUE_S = 60.0
_MAX_NAMED = 3  # a pod may have 16 claims with long names


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Queue the creation of a claim; `created` is the creation time of its pod."""

    claim: ReplicaClaim
    created: str


@dataclass(frozen=True, slots=True)
class WithdrawPending:
    """Cancel the queued creations for this pod."""


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Remove the pod's scheduling gate."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class ReportWait:
    """Report why the pod waits: a warning on the pod and its controllers, or a normal Event on the controllers only."""

    pod: Pod
    reason: str
    message: str
    warn: bool = True


Action: TypeAlias = CreateClaim | WithdrawPending | ReleasePod | ReportWait | Requeue


def decide(view: ReplicaPodView) -> list[Action]:
    """Return the next steps for a pod."""
    pod, reason = view.pod, view.problem[0]
    if pod is None or view.queued:
        return [WithdrawPending()]
    if reason:
        return [WithdrawPending(), ReportWait(pod, *view.problem), Requeue(_REQUEUE_S)]
    if taken := next((c for c in view.claims if c.state is ClaimState.TAKEN), None):
        return [WithdrawPending(), ReportWait(pod, NAME_CONFLICT, _conflict(pod, taken)), Requeue(_REQUEUE_S)]
    missing = [claim for claim in view.claims if claim.state is ClaimState.MISSING]
    leaving = [claim for claim in view.claims if claim.state is ClaimState.LEAVING]
    if not missing and not leaving:
        return [ReleasePod(pod), Requeue(_REQUEUE_S)] if view.gated else []
    return [*_create(pod, missing), *_report(pod, missing, leaving), _requeue(missing)]


def _create(pod: Pod, missing: list[ReplicaClaim]) -> list[Action]:
    """Request the claims. Requests are repeated from time to time, because a failover loses the queue."""
    due = (claim for claim in missing if claim.failure is None or not claim.failure.retry_s)
    return [CreateClaim(claim, pod.metadata.creation_timestamp) for claim in due]


def _report(pod: Pod, missing: list[ReplicaClaim], leaving: list[ReplicaClaim]) -> list[Action]:
    if failed := next((claim for claim in missing if claim.failure is not None), None):
        reason = DELAYED if failed.failure and failed.failure.retry_s is None else REFUSED
        return [ReportWait(pod, reason, _failed(failed))]
    if leaving:
        return [ReportWait(pod, TERMINATING, _terminating(leaving[0]))]
    return [ReportWait(pod, WAITING, _waiting(pod, missing), warn=False)]


def _requeue(missing: list[ReplicaClaim]) -> Requeue:
    retries = [claim.failure.retry_s for claim in missing if claim.failure and claim.failure.retry_s]
    return Requeue(min([_REQUEUE_S, *retries]))


def _conflict(pod: Pod, claim: ReplicaClaim) -> str:
    held = f"belongs to {claim.holder}" if claim.holder else "belongs to no workload"
    return (
        f"PersistentVolumeClaim {pod.metadata.namespace}/{claim.name} exists and {held}, so the pod does not get it; "
        "rename the template, recreate the workload under another name, or delete that claim once nobody needs its "
        "data. If its workload was just deleted, Kubernetes deletes the claim by itself"
    )


def _waiting(pod: Pod, missing: list[ReplicaClaim]) -> str:
    names = ", ".join(claim.name for claim in missing[:_MAX_NAMED])
    more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
    return (
        "pods wait behind a scheduling gate until their claims exist, which Larder creates at a bounded rate; pod "
        f"{pod.metadata.name}, for example, lacks {names}{more}"
    )


def _terminating(claim: ReplicaClaim) -> str:
    return (
        f"claim {claim.name!r} was deleted and disappears when the last pod that mounts it has ended; Larder then "
        "creates it again, empty"
    )


def _failed(claim: ReplicaClaim) -> str:
    why = claim.failure.message if claim.failure else ""
    return (
        f"claim {claim.name!r} cannot be created: {why}; remove the cause, and Larder creates the claim when it "
        "tries again"
    )
