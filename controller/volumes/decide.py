"""Decides what happens to one claim and its volume. No input or output, no clock.

                    pods name it                          bound
    nothing ───────────────────────► volume, claim ───────────────► mounted
       ▲                                                               │ no pod names it
       └──── volume deleted ◄──── claim deleted ◄──── no live pod ◄────┘

A volume whose claim is gone (deleted by hand, or with its namespace) can never be bound again: it is deleted, and made
again if pods still ask for it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from controller.manager.actions import Requeue
from controller.volumes.templates import VolumeManifest
from controller.volumes.view import VolumeView
from shared.api.core import PersistentVolume
from shared.kube.objects import Meta

UNUSED_S = 30.0  # so that a rollout, or pods created one after another, keep their claim
_LOOK_AGAIN_S = 60.0
NAME_CONFLICT = "NameConflict"
REFUSED = "VolumeRefused"
DELAYED = "VolumeDelayed"


@dataclass(frozen=True, slots=True)
class Provision:
    """Create what is missing of the volume and the claim, when it is their turn."""

    manifest: VolumeManifest


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove a creation that still waits for its turn."""


@dataclass(frozen=True, slots=True)
class ListPods:
    """List the namespace's pods live, and decide again."""


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete the claim that was read."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Delete the volume that was read."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class ReportReason:
    """Say on the pods and their owners why they wait."""

    reason: str
    message: str


Action: TypeAlias = Provision | Withdraw | ListPods | DeleteClaim | DeleteVolume | ReportReason | Requeue


def decide(view: VolumeView) -> list[Action]:
    """Return the next steps for a claim."""
    if not view.users:
        return [Withdraw(), *_clean_up(view)]
    if view.claim is not None and not view.is_ours:
        return [Withdraw(), ReportReason(NAME_CONFLICT, _conflict(view)), Requeue(_LOOK_AGAIN_S)]
    if view.manifest is None:
        return [Withdraw(), ReportReason(*view.problem), Requeue(_LOOK_AGAIN_S)]
    if (lost := _lost_volume(view)) is not None:
        return [DeleteVolume(lost.metadata)]
    if _is_leaving(view):
        return []  # the watch tells when it is gone
    if view.claim is not None and view.volume is not None:
        return [Withdraw()]
    if view.failure is None:
        return [Provision(view.manifest)]
    if view.failure.retry_s > 0:
        return [ReportReason(REFUSED, _failed(view, view.failure.message)), Requeue(view.failure.retry_s)]
    return [ReportReason(DELAYED, _failed(view, view.failure.message))]


def _clean_up(view: VolumeView) -> list[Action]:
    if view.claim is not None and view.is_ours:
        if view.claim.metadata.deletion_timestamp is not None:
            return []
        if view.unused_s < UNUSED_S:
            return [Requeue(UNUSED_S - view.unused_s)]
        if view.live_users is None:
            return [ListPods()]
        return [Requeue(_LOOK_AGAIN_S)] if view.live_users else [DeleteClaim(view.claim.metadata)]
    if view.volume is not None and view.volume.metadata.deletion_timestamp is None:
        return [DeleteVolume(view.volume.metadata)]
    return []


def _lost_volume(view: VolumeView) -> PersistentVolume | None:
    """Return the volume if it was bound to an earlier claim of this name, so that no other can bind it."""
    volume, claim_uid = view.volume, view.claim.metadata.uid if view.claim else ""
    if volume is None or volume.metadata.deletion_timestamp is not None:
        return None
    return volume if volume.spec.claim_ref.uid not in ("", claim_uid) else None


def _is_leaving(view: VolumeView) -> bool:
    """Return whether the claim or the volume is being deleted, so that neither can be created yet."""
    known = (found.metadata for found in (view.claim, view.volume) if found is not None)
    return any(meta.deletion_timestamp is not None for meta in known)


def _conflict(view: VolumeView) -> str:
    return (
        f"PersistentVolumeClaim {view.key.namespace}/{view.key.name} exists and is not Larder's, so the pod's model "
        "cannot be mounted through it; delete or rename that claim, or delete the pod: its successor gets another name"
    )


def _failed(view: VolumeView, why: str) -> str:
    return (
        f"the claim {view.key.name!r} for the pod's model cannot be created: {why}; Larder tries again, and nothing "
        "else needs to be done once the cause is gone"
    )
