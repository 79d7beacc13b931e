"""Decides from a view of a ModelCache what to do for it. No input or output, no clock.

    resolved            bound or waiting for its pod          every file verified
    Pending ────────► pvcCreated ────────► Downloading ────────► Ready
       ▲                  ▲                     │                   │ claim deleted by hand
       │                  └──── after a pause ──┴─ Failed           │
       └────────────────────────────────────────────────────────────┘

A deleted cache waits for its pods, then its Job, its claim and its volume go, and at last the object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from controller.downloads.outcome import DownloadCompleted, DownloadFailed, DownloadRunning, outcome_of
from controller.downloads.unbound_claim import unbound_reason
from controller.manager.actions import Requeue
from controller.manager.provision_queue import queued_message
from controller.modelcaches.job import DownloadOrder, job_name
from controller.modelcaches.templates import StorageManifest, is_of_template, template_of, wanted_bytes
from controller.modelcaches.view import ModelCacheView
from controller.models.decide import AddFinalizer, RemoveFinalizer, Resolve
from controller.placement.demand import Resolution
from controller.volumes.decide import DeleteClaim, Withdraw
from shared.api.core import PersistentVolume
from shared.api.meta import condition_of
from shared.api.model_cache import CacheStatus
from shared.errors import SourceChanged
from shared.kube.objects import Meta
from shared.quantity import format_bytes
from shared.uri.git import GitUri
from shared.uri.model_uri import HfUri, parse_uri

READY = "Downloaded"
_BUSY_S, _IDLE_S, _RECHECK_S, _REFUSED_S = 5.0, 300.0, 20.0, 60.0
_RECHECK_FRACTION = (
    0.25  # of the time since the deletion: pods of a cache that is still in use are listed ever more rarely
)
_FIRST_RETRY, _LONGEST_RETRY = timedelta(seconds=15), timedelta(minutes=10)
_FIRST_ACTION, _LONGEST_ACTION = timedelta(minutes=15), timedelta(minutes=60)
_RELEASED = ("Released", "Failed")  # phases of a volume whose claim is gone
_REMEDY = "correct spec.pvcSpec.storageClassName, and Larder creates the claim again"
# Reasons after which only somebody's action helps; named, because the report of a Job is only text.
_NEEDS_ACTION = frozenset(
    ("AddressRefused", "AuthDenied", "InvalidURI", "PickleRefused", "RevisionNotFound", "SourceNotFound", "UnsafePath")
)


@dataclass(frozen=True, slots=True)
class ProvisionStorage:
    """Create the claim, and its volume if Larder makes it, when it is their turn."""

    manifest: StorageManifest


@dataclass(frozen=True, slots=True)
class StartDownload:
    """Start the download."""

    order: DownloadOrder


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job that was read, and its pods."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class DeleteCacheVolume:
    """Delete the volume that was read."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class ListClaimUsers:
    """List the pods that mount the claim live, and decide again."""


@dataclass(frozen=True, slots=True)
class WriteCacheStatus:
    """Report to the user.

    Args:
        state: The proposal's state.
        reason: Of the condition Ready.
        message: Of the condition Ready.
        is_stalled: Whether nothing will change until somebody acts.
        fields: Other fields of the status that change.
    """

    state: CacheStatus
    reason: str
    message: str
    is_stalled: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


Removal: TypeAlias = DeleteJob | DeleteClaim | DeleteCacheVolume
Action: TypeAlias = (
    AddFinalizer | RemoveFinalizer | Resolve | ProvisionStorage | Withdraw | StartDownload | Removal | ListClaimUsers
    | WriteCacheStatus | Requeue
)  # fmt: skip


def decide(view: ModelCacheView, now: datetime, finalizer_s: float) -> list[Action]:
    """Return the actions, in order."""
    if view.demand.deleting:
        return _decide_deleted(view, now, finalizer_s)
    if not view.has_finalizer:
        return [AddFinalizer()]
    if view.is_complete:
        return _decide_complete(view)
    if view.problems:
        reason, message = view.problems[0]
        write = WriteCacheStatus("Failed", reason, message, is_stalled=True)
        return [Withdraw(), *_running_job_removal(view), write, Requeue(_IDLE_S)]
    resolution = view.answer or view.demand.resolution
    if resolution is None:
        return _resolve(view)
    return _decide_claim(view, resolution, now)


def current_job(view: ModelCacheView) -> str:
    """Return the name of the Job of the current attempt; empty while there is no claim, or nothing to download."""
    resolution = view.answer or view.demand.resolution
    if resolution is None or not view.claim_uid or view.is_complete:
        return ""
    return job_name(view.demand.uid, view.claim_uid, resolution.revision, view.cache.status.attempts)


def _decide_complete(view: ModelCacheView) -> list[Action]:
    status, claim = view.cache.status, view.claim
    if claim is not None and claim.metadata.deletion_timestamp is not None:
        write = WriteCacheStatus("Failed", "ClaimTerminating", _terminating(view))
        return [Withdraw(), *_job_removal(view), write, Requeue(_BUSY_S)]
    if claim is not None and claim.status.phase == "Lost":
        message = f"claim {view.claim_name} lost its volume; delete the claim, and Larder downloads the model again"
        return [Withdraw(), WriteCacheStatus("Failed", "ClaimLost", message, is_stalled=True), Requeue(_IDLE_S)]
    modes = ", ".join(sorted(claim.spec.access_modes)) if claim is not None else ""
    message = (
        f"{status.files} files, {format_bytes(status.size)}, are verified on claim {view.claim_name} ({modes}); pods "
        f"of namespace {view.demand.namespace} mount it{_changed_template(view)}"
    )
    return [Withdraw(), WriteCacheStatus("Ready", READY, message, fields=_settled(view, percent=100))]


def _resolve(view: ModelCacheView) -> list[Action]:
    actions: list[Action] = [Resolve()] if view.may_resolve else []
    if view.failure is None:
        return [*actions, WriteCacheStatus("Pending", "Resolving", f"asking {view.demand.uri} for its files")]
    failure = view.failure
    return [
        *actions,
        WriteCacheStatus("Failed", failure.reason, failure.message, is_stalled=not failure.retryable),
        Requeue(_RECHECK_S),
    ]


def _decide_claim(view: ModelCacheView, resolution: Resolution, now: datetime) -> list[Action]:
    fields = _recorded(resolution) | {"claim": view.claim_name}
    if view.claim is None:
        return _provision(view, resolution, fields)
    if not view.is_ours:
        message = (
            f"claim {view.claim_name} exists and is not Larder's; delete or rename it, or create the cache under "
            "another name"
        )
        return [
            Withdraw(),
            WriteCacheStatus("Failed", "NameConflict", message, is_stalled=True, fields=fields),
            Requeue(_RECHECK_S),
        ]
    if view.claim.metadata.deletion_timestamp is not None:
        write = WriteCacheStatus("Pending", "ClaimTerminating", _terminating(view), fields=fields)
        return [Withdraw(), *_job_removal(view), write, Requeue(_BUSY_S)]
    if _is_outdated(view):
        return [*_job_removal(view), DeleteClaim(view.claim.metadata), Requeue(_BUSY_S)]
    return [Withdraw(), *_decide_job(view, resolution, fields, now)]


def _provision(view: ModelCacheView, resolution: Resolution, fields: dict[str, Any]) -> list[Action]:
    size, fields = wanted_bytes(view.cache, resolution.size_bytes), fields | {"percent": 0, "retry_at": ""}
    manifest = StorageManifest(view.cache.metadata, view.claim_name, size, template_of(view.cache))
    if view.volume is not None and view.volume.status.phase in _RELEASED:
        return _replace_volume(view.volume, fields)
    failure = view.creation_failure
    if failure is None:
        write = WriteCacheStatus("Pending", "Queued", queued_message(view.claim_name, view.position), fields=fields)
        return [ProvisionStorage(manifest), write, Requeue(_RECHECK_S)]
    message = f"claim {view.claim_name} cannot be created: {failure.message}"
    write = WriteCacheStatus(
        "Failed", failure.reason or "ClaimRefused", f"{message}; Larder tries again", fields=fields
    )
    if failure.retry_s:
        return [write, Requeue(failure.retry_s)]
    return [write, ProvisionStorage(manifest), Requeue(_RECHECK_S)]


def _replace_volume(volume: PersistentVolume, fields: dict[str, Any]) -> list[Action]:
    """Delete the volume of a claim that is gone, because it would never be bound to the next claim."""
    name, going = volume.metadata.name, volume.metadata.deletion_timestamp is not None
    message = f"PersistentVolume {name} still belongs to a claim that was deleted, and is created again first"
    write = WriteCacheStatus("Pending", "Provisioning", message, fields=fields)
    return [Withdraw(), *([] if going else [DeleteCacheVolume(volume.metadata)]), write, Requeue(_BUSY_S)]


def _decide_job(view: ModelCacheView, resolution: Resolution, fields: dict[str, Any], now: datetime) -> list[Action]:
    name = current_job(view)
    if view.job is None:
        return _start(view, resolution, fields, now, name)
    if view.secret_refused and view.job.end is None:
        message = f"the download was stopped: {view.secret_refused}; it continues once that is corrected"
        write = WriteCacheStatus("Failed", "JobRefused", message, fields=fields | {"job": name})
        return [*_running_job_removal(view), write, Requeue(_REFUSED_S)]
    outcome = outcome_of(view.job, view.pods, now)
    match outcome:
        case DownloadRunning(is_downloading=True):
            percent = max(view.percent, view.cache.status.percent) if view.cache.status.job == name else view.percent
            message = f"Job {name} downloads {resolution.files} files, {format_bytes(resolution.size_bytes)}"
            return [
                WriteCacheStatus(
                    "Downloading", "Downloading", message, fields=fields | {"job": name, "percent": percent}
                ),
                Requeue(_BUSY_S),
            ]
        case DownloadRunning():
            return [_waiting(view, outcome, fields | {"job": name}, now), Requeue(_BUSY_S)]
        case DownloadCompleted(revision) if revision == resolution.revision:
            done = {"serving_revision": revision, "claim_uid": view.claim_uid}
            message = f"the download to claim {view.claim_name} is complete"
            return [WriteCacheStatus("Ready", READY, message, fields=fields | done | _settled(view, percent=100))]
        case DownloadCompleted(revision):
            outcome = DownloadFailed(SourceChanged.__name__, f"the source is now at revision {revision}")
    return _failed(view, outcome, fields, now)


def _start(
    view: ModelCacheView, resolution: Resolution, fields: dict[str, Any], now: datetime, name: str
) -> list[Action]:
    if view.outdated_job is not None:
        earlier = view.outdated_job.metadata
        message = f"Job {earlier.name}, which downloads another revision or selection, is deleted first"
        write = WriteCacheStatus("pvcCreated", "Starting", message, fields=fields)
        return [DeleteJob(earlier), write, Requeue(_BUSY_S)]
    status, refreshed = view.cache.status, view.demand.refresh_pending
    wait_s = (datetime.fromisoformat(status.retry_at) - now).total_seconds() if status.retry_at else 0.0
    ready = condition_of(status.conditions, "Ready")
    if wait_s > 0 and not refreshed and ready is not None:
        return [
            WriteCacheStatus("Failed", ready.reason, ready.message, is_stalled=ready.reason in _NEEDS_ACTION),
            Requeue(wait_s),
        ]
    if view.job_refused:
        message = f"the download's Job cannot be created: {view.job_refused}"
        return [WriteCacheStatus("Failed", "JobRefused", message, fields=fields), Requeue(_REFUSED_S)]
    if view.waits_for:
        return [WriteCacheStatus("pvcCreated", "WaitingForTurn", view.waits_for, fields=fields), Requeue(_RECHECK_S)]
    order = DownloadOrder(
        name, view.claim_name, _pinned(resolution, view), resolution.revision, view.demand.selection, view.limit_bytes_s
    )
    started = fields | {"job": name, "percent": 0, "retry_at": "", "refreshed": view.demand.refresh}
    write = WriteCacheStatus(
        "pvcCreated", "Starting", f"Job {name} will download to claim {view.claim_name}", fields=started
    )
    return [StartDownload(order), write, Requeue(_BUSY_S)]


def _waiting(view: ModelCacheView, running: DownloadRunning, fields: dict[str, Any], now: datetime) -> WriteCacheStatus:
    """Return why the Job does not download yet; what keeps the claim from its volume comes first."""
    reason, message = _unbound(view, now) or (running.reason, running.message)
    if not reason:
        reason, message = "Starting", f"the download to claim {view.claim_name} is starting"
    status = view.cache.status
    has_begun = status.percent > 0 and status.job == fields["job"]
    return WriteCacheStatus("Downloading" if has_begun else "pvcCreated", reason, message, fields=fields)


def _unbound(view: ModelCacheView, now: datetime) -> tuple[str, str] | None:
    """Return why the claim will not be bound without somebody's action; None for volumes that Larder makes."""
    return None if view.volume is not None else unbound_reason(view.claim, view.storage_class, now, _REMEDY)


def _failed(view: ModelCacheView, failure: DownloadFailed, fields: dict[str, Any], now: datetime) -> list[Action]:
    attempts = view.cache.status.attempts + 1
    wait = _pause(failure.reason, attempts)
    at = now + wait
    if failure.reason == SourceChanged.__name__:
        fields = fields | {"source": "", "manifest_digest": ""}  # it is resolved again
    fields = fields | {"attempts": attempts, "retry_at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    message = (
        f"{failure.message}; attempt {attempts + 1} starts at {at.strftime('%H:%M UTC')}, or at once when annotation "
        f"larder.dev/refresh changes{_changed_template(view)}"
    )
    stalled = failure.reason in _NEEDS_ACTION
    return [
        WriteCacheStatus("Failed", failure.reason, message, is_stalled=stalled, fields=fields),
        Requeue(wait.total_seconds()),
    ]


def _pause(reason: str, attempts: int) -> timedelta:
    first, longest = _FIRST_RETRY, _LONGEST_RETRY
    if reason in _NEEDS_ACTION:
        first, longest = _FIRST_ACTION, _LONGEST_ACTION
    return min(first * 2.0 ** min(attempts - 1, 10), longest)


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


def _settled(view: ModelCacheView, percent: int) -> dict[str, Any]:
    return {"percent": percent, "attempts": 0, "retry_at": "", "refreshed": view.demand.refresh}


def _pinned(resolution: Resolution, view: ModelCacheView) -> str:
    """Return the URI for the download: that of a hub names the commit, because a branch may move meanwhile."""
    uri, selection = parse_uri(resolution.uri), view.demand.selection.key
    commit = resolution.revision.removesuffix(f"-{selection}" if selection else "")
    match uri:
        case HfUri():
            return str(HfUri(uri.repo, commit))
        case GitUri():
            return str(GitUri(uri.place, commit))
        case _:
            return resolution.uri


def _is_outdated(view: ModelCacheView) -> bool:
    """Return whether somebody corrected pvcSpec while the claim had no volume yet."""
    claim = view.claim
    if claim is None or claim.status.phase == "Bound" or view.cache.spec.pv_spec:
        return False
    return not is_of_template(claim, view.cache)


def _changed_template(view: ModelCacheView) -> str:
    """Return what a change of pvcSpec or pvSpec needs: a claim with a volume keeps those that it was created from."""
    if view.claim is None or is_of_template(view.claim, view.cache):
        return ""
    return (
        f"; pvcSpec or pvSpec has changed since claim {view.claim_name} was created, and applies once the claim is "
        f"deleted and created again, which downloads the model again"
    )


def _job_removal(view: ModelCacheView) -> list[DeleteJob]:
    """Return the deletion of the Job: even a pod that has ended keeps a deleted claim from going away."""
    found = view.job
    return [DeleteJob(found.metadata)] if found and found.metadata.deletion_timestamp is None else []


def _running_job_removal(view: ModelCacheView) -> list[DeleteJob]:
    """Return the deletion of a Job that still downloads."""
    return _job_removal(view) if view.job is not None and view.job.end is None else []


def _terminating(view: ModelCacheView) -> str:
    return (
        f"claim {view.claim_name} was deleted and goes when the last pod that mounts it has ended; then Larder creates "
        "it again and downloads the model"
    )


def _decide_deleted(view: ModelCacheView, now: datetime, finalizer_s: float) -> list[Action]:
    if not view.has_finalizer:
        return []
    if view.users is None:
        return [Withdraw(), ListClaimUsers()]
    deleted = datetime.fromisoformat(view.cache.metadata.deletion_timestamp or "")
    if view.users:
        message = f"the cache is deleted once these pods have ended: {', '.join(view.users[:5])}"
        pause_s = (now - deleted).total_seconds() * _RECHECK_FRACTION
        return [WriteCacheStatus("Deleting", "InUse", message), Requeue(min(max(pause_s, _BUSY_S), _IDLE_S))]
    end = deleted + timedelta(seconds=finalizer_s)
    steps = _removals(view)
    if not steps or now >= end:
        return [RemoveFinalizer()]
    waits = WriteCacheStatus("Deleting", "Deleting", f"claim {view.claim_name} is being deleted")
    return [*(step for step in steps if step is not None), waits, Requeue(_BUSY_S)]


def _removals(view: ModelCacheView) -> list[Removal | None]:
    """Return what is left to remove; None for what is already being deleted."""
    found: list[Removal | None] = []
    if view.job is not None:
        found += _job_removal(view) or [None]
    if view.claim is not None and view.is_ours:
        going = view.claim.metadata.deletion_timestamp is not None
        found.append(None if going else DeleteClaim(view.claim.metadata))
    elif view.volume is not None:
        going = view.volume.metadata.deletion_timestamp is not None
        found.append(None if going else DeleteCacheVolume(view.volume.metadata))
    return found
