"""Decides what happens to one claim and its volume. No input or output, no clock.

                    pods name it                          bound
    nothing ───────────────────────► volume, claim ───────────────► mounted
       ▲                                                               │ no pod names it
       └──── volume deleted ◄──── claim deleted ◄──── no live pod ◄────┘

A volume whose claim is gone (deleted by hand, or with its namespace) can never be bound again: it is deleted, and
recreated if pods still need it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from controller.manager.actions import DeleteClaim, Requeue, Withdraw
from controller.provisioning.provision_queue import ordinal_bound
from controller.volumes.objects import VolumeManifest
from controller.volumes.taken_name import advice_on_taken_name
from controller.volumes.view import VolumeView
from shared.api.core import BOUND, PersistentVolume, PersistentVolumeClaim

UNUSED_S = 30.0  # so that a rollout, or pods created one after another, keep their claim
UNBOUND_S = 20.0  # binding takes about a second
_REQUEUE_S = 60.0
NAME_CONFLICT = "NameConflict"
REFUSED = "VolumeRefused"
DELAYED = "VolumeDelayed"
QUEUED = "VolumeQueued"
TERMINATING = "VolumeTerminating"
NOT_BOUND = "VolumeNotBound"


@dataclass(frozen=True, slots=True)
class Provision:
    """Queue the creation of the missing volume or claim."""

    manifest: VolumeManifest


@dataclass(frozen=True, slots=True)
class ListPods:
    """List the namespace's pods live, and decide again."""


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Delete the volume that was read, unless its claim exists after all."""

    seen: PersistentVolume


@dataclass(frozen=True, slots=True)
class ReportReason:
    """Write an Event about why the pods wait, on them and their owners."""

    reason: str
    message: str
    warn: bool = True


Action: TypeAlias = Provision | Withdraw | ListPods | DeleteClaim | DeleteVolume | ReportReason | Requeue


def decide(view: VolumeView) -> list[Action]:
    """Return the next steps for a claim."""
    if not view.users:
        return [Withdraw(), *_clean_up(view)]
    if view.claim is not None and not view.is_ours:
        return [Withdraw(), ReportReason(NAME_CONFLICT, _conflict(view)), Requeue(_REQUEUE_S)]
    if _is_leaving(view):
        return [Withdraw(), ReportReason(TERMINATING, _terminating(view)), Requeue(_REQUEUE_S)]
    if view.claim is not None and view.volume is not None and _is_bound_or_free(view):
        return [Withdraw(), *_check_files(view), *_check_binding(view, view.claim)]
    if view.manifest is None:
        return [Withdraw(), ReportReason(*view.problem), Requeue(_REQUEUE_S)]
    if (lost := _lost_volume(view)) is not None:
        return [DeleteVolume(lost), Requeue(_REQUEUE_S)]
    return _provision(view, view.manifest)


def _provision(view: VolumeView, manifest: VolumeManifest) -> list[Action]:
    """Request the objects; the request is repeated, because a queue is lost with its replica."""
    if view.failure is None or view.failure.retry_s == 0:
        return [*_queued(view), Provision(manifest), Requeue(_REQUEUE_S)]
    if view.failure.retry_s is not None:
        reason = view.failure.reason or REFUSED
        return [ReportReason(reason, _failed(view, view.failure.message)), Requeue(view.failure.retry_s)]
    delayed = ReportReason(DELAYED, _failed(view, view.failure.message))
    return [delayed, Provision(manifest), Requeue(_REQUEUE_S)]


def _queued(view: VolumeView) -> list[Action]:
    """Report the place of a creation that is already in the queue."""
    if view.position is None:
        return []
    message = (
        f"the claim {view.key.name!r} for the pod's model waits for its turn to be created, among the first "
        f"{ordinal_bound(view.position)} in the queue; the pod starts without further action"
    )
    return [ReportReason(QUEUED, message, warn=False)]


def _is_bound_or_free(view: VolumeView) -> bool:
    """Return whether the claim has the volume, or is going to."""
    bound_to = view.volume.spec.claim_ref.uid if view.volume else ""
    return view.claim is not None and bound_to in ("", view.claim.metadata.uid)


def _check_files(view: VolumeView) -> list[Action]:
    """Report a claim whose files differ from those that the pods were admitted with."""
    if view.manifest is None or view.volume is None or view.volume.spec.local.path == view.manifest.path:
        return []
    path, manifest = view.volume.spec.local.path, view.manifest
    if path.endswith(manifest.path.removeprefix(manifest.store_root)):
        message = (
            f"claim {view.key.name!r} has the files of an earlier storeRoot ({path}), which new nodes do not have; end "
            "all pods that mount it, for example by scaling their Deployment to zero: half a minute later, new pods "
            f"get the files in {manifest.store_root}"
        )
    else:
        message = (
            f"claim {view.key.name!r} has the files of another revision ({path}) than the pod was given; delete the "
            "pod: its successor gets another claim"
        )
    return [ReportReason(NAME_CONFLICT, message), Requeue(_REQUEUE_S)]


def _check_binding(view: VolumeView, claim: PersistentVolumeClaim) -> list[Action]:
    """Report a claim that Kubernetes does not bind to its volume."""
    if claim.status.phase == BOUND:
        return []
    if view.unbound_s < UNBOUND_S:
        return [Requeue(UNBOUND_S - view.unbound_s)]
    return [ReportReason(NOT_BOUND, _not_bound(claim)), Requeue(_REQUEUE_S)]


def _clean_up(view: VolumeView) -> list[Action]:
    if view.claim is not None and view.is_ours:
        if view.claim.metadata.deletion_timestamp is not None:
            return []
        if view.unused_s < UNUSED_S:
            return [Requeue(UNUSED_S - view.unused_s)]
        if view.live_users is None:
            return [ListPods()]
        return [Requeue(_REQUEUE_S)] if view.live_users else [DeleteClaim(view.claim.metadata)]
    if view.volume is not None and view.volume.metadata.deletion_timestamp is None:
        return [DeleteVolume(view.volume), Requeue(_REQUEUE_S)]  # a claim of that name may exist for a time
    return []


def _lost_volume(view: VolumeView) -> PersistentVolume | None:
    """Return the volume if no claim can be bound to it: it had an earlier claim, or has other files."""
    volume, claim_uid = view.volume, view.claim.metadata.uid if view.claim else ""
    if volume is None or volume.metadata.deletion_timestamp is not None:
        return None
    if volume.spec.claim_ref.uid not in ("", claim_uid):
        return volume
    other_files = view.manifest is not None and volume.spec.local.path != view.manifest.path
    return volume if view.claim is None and other_files else None


def _is_leaving(view: VolumeView) -> bool:
    """Return whether the claim or the volume is being deleted, so that neither can be created yet."""
    known = (found.metadata for found in (view.claim, view.volume) if found is not None)
    return any(meta.deletion_timestamp is not None for meta in known)


def _terminating(view: VolumeView) -> str:
    found = view.claim or view.volume
    what = "claim" if view.claim is not None and view.claim.metadata.deletion_timestamp else "volume"
    name = found.metadata.name if found else view.key.name
    return (
        f"the {what} for the pod's model, {name!r}, was deleted and disappears when the last pod that mounts it has "
        "ended; then Larder recreates it. If a rollout waits for that, delete the older pods"
    )


def _conflict(view: VolumeView) -> str:
    advice = advice_on_taken_name(view.key.name, view.manifest.wanted if view.manifest is not None else None)
    return (
        f"PersistentVolumeClaim {view.key.namespace}/{view.key.name} exists, but Larder did not create it, so the "
        f"pod's model cannot be mounted through it; {advice}"
    )


def _not_bound(claim: PersistentVolumeClaim) -> str:
    meta, spec = claim.metadata, claim.spec
    of_class = f" of the storage class {spec.storage_class_name!r}" if spec.storage_class_name else ""
    return (
        f"claim {meta.name!r}{of_class} for the pod's model exists, and so does its volume {spec.volume_name!r}, but "
        f"Kubernetes has not bound them within {UNBOUND_S:.0f} s. `kubectl describe pvc {meta.name} -n "
        f"{meta.namespace}` shows the reason; if it shows none, check that kube-controller-manager runs"
    )


def _failed(view: VolumeView, why: str) -> str:
    return (
        f"the claim {view.key.name!r} for the pod's model cannot be created: {why}; Larder retries, and nothing "
        "else needs to be done once the cause is gone"
    )
