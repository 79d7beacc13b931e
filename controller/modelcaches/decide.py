"""Decides from a view of a ModelCache what to do for it. No input or output, no clock.

    resolved            bound or waiting for its pod          every file verified
    Pending ────────► pvcCreated ────────► Downloading ────────► Ready
       ▲                  ▲                     │                   │ claim deleted by hand
       │                  └──── after a pause ──┴─ Failed           │
       └────────────────────────────────────────────────────────────┘

A deleted cache waits for its pods; then its Job, its claim and its volume are deleted, and finally the object.
"""

from datetime import datetime
from typing import Any

from controller.downloads.unbound_claim import lost_reason
from controller.manager.actions import AddFinalizer, DeleteClaim, Requeue, Resolve, Withdraw
from controller.modelcaches.actions import (
    BUSY_S,
    DOWNLOADED,
    IDLE_S,
    RECHECK_S,
    Action,
    DeleteCacheVolume,
    ProvisionStorage,
    WriteCacheStatus,
)
from controller.modelcaches.download_steps import decide_job, pause_actions, settled_fields, template_note
from controller.modelcaches.objects import StorageManifest, is_of_template, template_of, wanted_bytes
from controller.modelcaches.removal_steps import decide_deleted, job_removal, running_job_removal
from controller.modelcaches.view import ModelCacheView
from controller.placement.demand import Resolution
from controller.provisioning.provision_queue import queued_message
from shared.api.core import PersistentVolume
from shared.quantity import format_bytes

_NO_PAUSE = {"retry_at": ""}  # for reasons other than a failed download
_RELEASED = ("Released", "Failed")  # phases of a volume whose claim is gone


def decide(view: ModelCacheView, now: datetime, finalizer_s: float) -> list[Action]:
    """Return the actions, in order."""
    if view.demand.deleting:
        return decide_deleted(view, now, finalizer_s)
    if not view.has_finalizer:
        return [AddFinalizer()]
    if view.is_complete:
        return _decide_complete(view)
    if view.problems:
        reason, message = view.problems[0]
        write = WriteCacheStatus("Failed", reason, message, is_stalled=True, fields=_NO_PAUSE)
        return [Withdraw(), *running_job_removal(view), write, Requeue(IDLE_S)]
    resolution = view.answer or view.demand.resolution
    if resolution is None:
        return _resolve(view, now)
    return _decide_claim(view, resolution, now)


def _decide_complete(view: ModelCacheView) -> list[Action]:
    status, claim = view.cache.status, view.claim
    if claim is not None and claim.metadata.deletion_timestamp is not None:
        write = WriteCacheStatus("Failed", "ClaimTerminating", _terminating(view))
        return [Withdraw(), *job_removal(view), write, Requeue(BUSY_S)]
    if claim is not None and (lost := lost_reason(claim)) is not None:
        return [Withdraw(), WriteCacheStatus("Failed", *lost, is_stalled=True), Requeue(IDLE_S)]
    modes = ", ".join(sorted(claim.spec.access_modes)) if claim is not None else ""
    message = (
        f"{status.files} files, {format_bytes(status.size)}, are verified on claim {view.claim_name} ({modes}); pods "
        f"of namespace {view.demand.namespace} can mount it{template_note(view)}"
    )
    return [Withdraw(), WriteCacheStatus("Ready", DOWNLOADED, message, fields=settled_fields(view))]


def _resolve(view: ModelCacheView, now: datetime) -> list[Action]:
    """List the files, after the pause if a download failed, but at once if another selection is wanted."""
    if view.cache.status.selection == view.demand.selection.key and (pause := pause_actions(view, now)):
        return pause
    actions: list[Action] = [Resolve()] if view.may_resolve else []
    if view.failure is None:
        message = f"listing the files of {view.demand.uri}"
        write = WriteCacheStatus("Pending", "Resolving", message, fields=_NO_PAUSE)
        return [*actions, write, Requeue(RECHECK_S)]
    failure, stalled = view.failure, not view.failure.retryable
    write = WriteCacheStatus("Failed", failure.reason, failure.message, is_stalled=stalled, fields=_NO_PAUSE)
    return [*actions, write, Requeue(RECHECK_S)]


def _decide_claim(view: ModelCacheView, resolution: Resolution, now: datetime) -> list[Action]:
    fields = _recorded(resolution) | {"claim": view.claim_name}
    if view.claim is None:
        return _provision(view, resolution, fields)
    if not view.is_ours:
        message = (
            f"claim {view.claim_name} exists, but Larder did not create it; delete it if nobody needs its data, or "
            "create the cache under another name"
        )
        return [
            Withdraw(),
            WriteCacheStatus("Failed", "NameConflict", message, is_stalled=True, fields=fields),
            Requeue(RECHECK_S),
        ]
    if view.claim.metadata.deletion_timestamp is not None:
        write = WriteCacheStatus("Pending", "ClaimTerminating", _terminating(view), fields=fields)
        return [Withdraw(), *job_removal(view), write, Requeue(BUSY_S)]
    if _is_outdated(view):
        return [*job_removal(view), DeleteClaim(view.claim.metadata), Requeue(BUSY_S)]
    return [Withdraw(), *decide_job(view, resolution, fields, now)]


def _provision(view: ModelCacheView, resolution: Resolution, fields: dict[str, Any]) -> list[Action]:
    size, fields = wanted_bytes(view.cache, resolution.size_bytes), fields | {"percent": 0, "retry_at": ""}
    manifest = StorageManifest(view.cache.metadata, view.claim_name, size, template_of(view.cache))
    if view.volume is not None and (view.volume.spec.claim_ref.uid or view.volume.status.phase in _RELEASED):
        return _replace_volume(view.volume, fields)
    failure = view.creation_failure
    if failure is None:
        write = WriteCacheStatus("Pending", "Queued", queued_message(view.claim_name, view.position), fields=fields)
        return [ProvisionStorage(manifest), write, Requeue(RECHECK_S)]
    message = f"claim {view.claim_name} cannot be created: {failure.message}"
    write = WriteCacheStatus("Failed", failure.reason or "ClaimRefused", f"{message}; Larder retries", fields=fields)
    if failure.retry_s:
        return [write, Requeue(failure.retry_s)]
    return [write, ProvisionStorage(manifest), Requeue(RECHECK_S)]


def _replace_volume(volume: PersistentVolume, fields: dict[str, Any]) -> list[Action]:
    """Delete the volume of a claim that is gone, because it would never be bound to the next claim.

    The claim may be missing only from the cache, so nothing is deleted before Kubernetes has released the volume.
    """
    meta = volume.metadata
    message = f"PersistentVolume {meta.name} still belongs to a deleted claim; Larder recreates it first"
    write = WriteCacheStatus("Pending", "Provisioning", message, fields=fields)
    may_go = volume.status.phase in _RELEASED and meta.deletion_timestamp is None
    return [Withdraw(), *([DeleteCacheVolume(meta)] if may_go else []), write, Requeue(BUSY_S)]


def _recorded(resolution: Resolution) -> dict[str, Any]:
    return {
        "source": resolution.uri,
        "resolved_revision": resolution.revision,
        "manifest_digest": resolution.manifest,
        "size": resolution.size_bytes,
        "files": resolution.files,
        "selection": resolution.selection,
        "left_out": resolution.left_out,
    }


def _is_outdated(view: ModelCacheView) -> bool:
    """Return whether pvcSpec was corrected before the claim had a volume."""
    claim = view.claim
    if claim is None or claim.status.phase == "Bound" or view.cache.spec.pv_spec:
        return False
    return not is_of_template(claim, view.cache)


def _terminating(view: ModelCacheView) -> str:
    return (
        f"claim {view.claim_name} was deleted and disappears when the last pod that mounts it has ended; then "
        "Larder creates it again and downloads the model"
    )
