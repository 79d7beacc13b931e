"""Decides the steps of a ModelCache's download, once its claim exists. No input or output, no clock.

A failed attempt is followed by the next after a pause, which doubles from 15 s to 10 min; after a failure that only
a change by hand can fix, from 15 min to 60 min.
"""

from datetime import datetime, timedelta
from typing import Any

from controller.downloads.outcome import DownloadCompleted, DownloadFailed, DownloadRunning, outcome_of
from controller.downloads.unbound_claim import unbound_reason
from controller.manager.actions import Requeue
from controller.modelcaches.actions import (
    BUSY_S,
    DOWNLOADED,
    RECHECK_S,
    REFUSED_S,
    Action,
    DeleteJob,
    StartDownload,
    WriteCacheStatus,
)
from controller.modelcaches.job import DownloadOrder, job_name
from controller.modelcaches.objects import is_of_template
from controller.modelcaches.removal_steps import running_job_removal
from controller.modelcaches.view import ModelCacheView
from controller.placement.demand import Resolution
from shared.api.meta import condition_of
from shared.errors import RevisionNotFound, SourceChanged
from shared.kube.objects import timestamp
from shared.quantity import format_bytes
from shared.uri.git import GitUri
from shared.uri.model_uri import HfUri, parse_uri

_FIRST_RETRY, _LONGEST_RETRY = timedelta(seconds=15), timedelta(minutes=10)
_FIRST_ACTION, _LONGEST_ACTION = timedelta(minutes=15), timedelta(minutes=60)
_REMEDY = "correct spec.pvcSpec.storageClassName, and Larder creates the claim again"
# Failures that only a change by hand can fix. They are listed here because a Job reports its reason as text.
_NEEDS_ACTION = frozenset(
    (
        "AddressRefused",
        "AuthDenied",
        "InvalidSettings",
        "InvalidURI",
        "PickleRefused",
        "RevisionNotFound",
        "SourceNotFound",
        "UnsafePath",
    )
)
# The source no longer has what it was resolved to; a Job for the same revision would fail again.
_RESOLVED_AGAIN = (SourceChanged.__name__, RevisionNotFound.__name__)


def current_job(view: ModelCacheView) -> str:
    """Return the name of the Job of the current attempt; empty while there is no claim, or nothing to download."""
    resolution = view.answer or view.demand.resolution
    if resolution is None or not view.claim_uid or view.is_complete:
        return ""
    return job_name(view.cache, view.claim_uid, resolution.revision)


def decide_job(view: ModelCacheView, resolution: Resolution, fields: dict[str, Any], now: datetime) -> list[Action]:
    """Return the actions for the download; `fields` are written to the status as well."""
    name = current_job(view)
    if view.job is None:
        return _start(view, resolution, fields, now, name)
    if view.secret_refused and view.job.end is None:
        message = f"the download was stopped: {view.secret_refused}; it continues once that is corrected"
        write = WriteCacheStatus("Failed", "JobRefused", message, fields=fields | {"job": name})
        return [*running_job_removal(view), write, Requeue(REFUSED_S)]
    if view.job.metadata.deletion_timestamp is not None:
        message = f"Job {name} is being deleted; the next one starts once its pods have ended"
        return [WriteCacheStatus("pvcCreated", "Starting", message, fields=fields), Requeue(BUSY_S)]
    outcome = outcome_of(view.job, view.pods, now)
    match outcome:
        case DownloadRunning(is_downloading=True):
            percent = max(view.percent, view.cache.status.percent) if view.cache.status.job == name else view.percent
            message = f"Job {name} downloads {resolution.files} files, {format_bytes(resolution.size_bytes)}"
            return [
                WriteCacheStatus(
                    "Downloading", "Downloading", message, fields=fields | {"job": name, "percent": percent}
                ),
                Requeue(BUSY_S),
            ]
        case DownloadRunning():
            return [_waiting(view, outcome, fields | {"job": name}, now), Requeue(BUSY_S)]
        case DownloadCompleted(revision) if revision == resolution.revision:
            done = {"serving_revision": revision, "claim_uid": view.claim_uid}
            message = f"the download to claim {view.claim_name} is complete"
            return [WriteCacheStatus("Ready", DOWNLOADED, message, fields=fields | done | settled_fields(view))]
        case DownloadCompleted(revision):
            outcome = DownloadFailed(SourceChanged.__name__, f"the source is now at revision {revision}")
    return _failed(view, outcome, fields, now)


def _start(
    view: ModelCacheView, resolution: Resolution, fields: dict[str, Any], now: datetime, name: str
) -> list[Action]:
    if view.outdated_job is not None:
        earlier = view.outdated_job.metadata
        message = (
            f"Job {earlier.name}, which was created for another revision, selection, nodeSelector or "
            "credentialsSecret, is deleted first, with its pods"
        )
        write = WriteCacheStatus("pvcCreated", "Starting", message, fields=fields)
        removal = [DeleteJob(earlier)] if earlier.deletion_timestamp is None else []
        return [*removal, write, Requeue(BUSY_S)]
    if pause := pause_actions(view, now):
        return pause
    if view.job_refused:
        message = f"the download's Job cannot be created: {view.job_refused}"
        return [WriteCacheStatus("Failed", "JobRefused", message, fields=fields), Requeue(REFUSED_S)]
    if view.waits_for:
        return [WriteCacheStatus("pvcCreated", "WaitingForTurn", view.waits_for, fields=fields), Requeue(RECHECK_S)]
    order = DownloadOrder(
        name, view.claim_name, _pinned(resolution, view), resolution.revision, view.demand.selection, view.limit_bytes_s
    )
    started = fields | {"job": name, "percent": 0, "retry_at": "", "refreshed": view.demand.refresh}
    write = WriteCacheStatus(
        "pvcCreated", "Starting", f"Job {name} will download to claim {view.claim_name}", fields=started
    )
    return [StartDownload(order), write, Requeue(BUSY_S)]


def _waiting(view: ModelCacheView, running: DownloadRunning, fields: dict[str, Any], now: datetime) -> WriteCacheStatus:
    """Return the status while the Job does not download; a reason why the claim gets no volume takes precedence."""
    reason, message = _unbound(view, now) or (running.reason, running.message)
    if not reason:
        reason, message = "Starting", f"the download to claim {view.claim_name} is starting"
    status = view.cache.status
    has_begun = status.percent > 0 and status.job == fields["job"]
    return WriteCacheStatus("Downloading" if has_begun else "pvcCreated", reason, message, fields=fields)


def _unbound(view: ModelCacheView, now: datetime) -> tuple[str, str] | None:
    """Return why the claim will stay unbound unless somebody acts; None for volumes that Larder makes."""
    return None if view.volume is not None else unbound_reason(view.claim, view.storage_class, now, _REMEDY)


def _failed(view: ModelCacheView, failure: DownloadFailed, fields: dict[str, Any], now: datetime) -> list[Action]:
    attempts = view.cache.status.attempts + 1
    wait = _pause(failure.reason, attempts)
    at = now + wait
    if failure.reason in _RESOLVED_AGAIN:
        fields = fields | {"source": "", "manifest_digest": ""}
    fields = fields | {"attempts": attempts, "retry_at": timestamp(at)}
    message = (
        f"{failure.message}; attempt {attempts + 1} starts at {at.strftime('%H:%M UTC')}, or at once when annotation "
        f"larder.dev/refresh changes{template_note(view)}"
    )
    stalled = failure.reason in _NEEDS_ACTION
    return [
        WriteCacheStatus("Failed", failure.reason, message, is_stalled=stalled, fields=fields),
        Requeue(wait.total_seconds()),
    ]


def pause_actions(view: ModelCacheView, now: datetime) -> list[Action]:
    """Return the actions in the pause after a failed attempt; empty if there is none.

    `retry_at` is set only while Ready says why the attempt failed, so the status stays as it is.
    """
    status = view.cache.status
    ready = condition_of(status.conditions, "Ready")
    if not status.retry_at or view.demand.refresh_pending or ready is None:
        return []
    wait_s = (datetime.fromisoformat(status.retry_at) - now).total_seconds()
    stalled = ready.reason in _NEEDS_ACTION
    write = WriteCacheStatus("Failed", ready.reason, ready.message, is_stalled=stalled)
    return [write, Requeue(wait_s)] if wait_s > 0 else []


def _pause(reason: str, attempts: int) -> timedelta:
    first, longest = _FIRST_RETRY, _LONGEST_RETRY
    if reason in _NEEDS_ACTION:
        first, longest = _FIRST_ACTION, _LONGEST_ACTION
    return min(first * 2.0 ** min(attempts - 1, 10), longest)


def settled_fields(view: ModelCacheView) -> dict[str, Any]:
    """Return the fields of the status after a complete download."""
    return {"percent": 100, "attempts": 0, "retry_at": "", "refreshed": view.demand.refresh}


def _pinned(resolution: Resolution, view: ModelCacheView) -> str:
    """Return the URI for the download: a hub or Git URI names the commit, because a branch may move meanwhile."""
    uri, selection = parse_uri(resolution.uri), view.demand.selection.key
    commit = resolution.revision.removesuffix(f"-{selection}" if selection else "")
    match uri:
        case HfUri():
            return str(HfUri(uri.repo, commit))
        case GitUri():
            return str(GitUri(uri.place, commit))
        case _:
            return resolution.uri


def template_note(view: ModelCacheView) -> str:
    """Return a note if pvcSpec or pvSpec has changed: the claim keeps those that it was created from."""
    if view.claim is None or is_of_template(view.claim, view.cache):
        return ""
    return (
        f"; pvcSpec or pvSpec has changed since claim {view.claim_name} was created, and applies once the claim is "
        f"deleted and recreated, which downloads the model again"
    )
