"""Decides from a view of a Model what to do for it. No input or output, no clock.

    no claim            claim exists               every file verified
    Pending ─────────────► Downloading ─────────────────► Ready
       ▲                        │                           │
       │ Job deleted            ▼                           │ claim deleted
       ├───────────────────── Failed                        │
       └────────────────────────────────────────────────────┘

A Ready model stays Ready while another source or version is downloaded beside its files; after that, new pods get the
new files. The Job of a later version first removes the versions that no pod mounts. The root of the claim is for one
source and version: any other gets a directory, even if the first was never complete, so that files never mix.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.downloads.outcome import DownloadCompleted, DownloadFailed, DownloadRunning, outcome_of
from controller.downloads.unbound_claim import unbound_reason
from controller.jobs.observed_jobs import Job
from controller.manager.actions import Requeue, Withdraw
from controller.modeloperator.actions import (
    Action,
    DeleteModelJob,
    GrowClaim,
    ProvisionClaim,
    StartModelDownload,
    WriteModelStatus,
)
from controller.modeloperator.download_end import DownloadEnd
from controller.modeloperator.objects import (
    REVISIONS,
    SETTINGS_LABEL,
    SIZE_LABEL,
    WANTED_LABEL,
    ModelDownload,
    claim_name,
    is_of,
    job_name,
    settings_digest,
)
from controller.modeloperator.resize import GROWING, Resize, resize_of
from controller.modeloperator.source import source_of
from controller.modeloperator.taken_name import EARLIER, reason_of_taken_name
from controller.modeloperator.view import ModelObjectView
from controller.provisioning.provision_queue import queued_message
from shared.api.model import ModelPhase
from shared.kube.objects import Object

IN_PROGRESS = "Download in progress"
_PENDING_S, _DOWNLOADING_S, _READY_S, _FAILED_S, _AGAIN_S = 10.0, 15.0, 300.0, 60.0, 2.0  # the specification's timings
_OF_CLAIM = ("downloaded", "claim_uid", "root_download", "path", "revision")  # fields of the status
_REMEDY = "delete the Model and create it with another spec.storage.storageClass"


def decide(view: ModelObjectView, now: datetime) -> list[Action]:
    """Return the actions, in order."""
    actions, resize = _decide(view, now), _resize(view)
    if resize is None:
        return actions
    condition = (resize.reason, resize.message)
    updated = (replace(a, resizing=condition) if isinstance(a, WriteModelStatus) else a for a in actions)
    return [*([GrowClaim(resize.size)] if _may_grow(view, resize) else []), *updated, Requeue(_FAILED_S)]


def _resize(view: ModelObjectView) -> Resize | None:
    meta, claim = view.model.metadata, view.claim
    if meta.deletion_timestamp is not None or view.problem or claim is None or not is_of(claim, meta):
        return None
    return None if claim.metadata.deletion_timestamp is not None else resize_of(view)


def _may_grow(view: ModelObjectView, resize: Resize) -> bool:
    return bool(resize.size) and not view.growth_refused


def _decide(view: ModelObjectView, now: datetime) -> list[Action]:
    meta = view.model.metadata
    if meta.deletion_timestamp is not None:
        return [Withdraw()]  # the claim and the Job go with their owner
    if view.problem is not None:
        reason, message = view.problem
        return [Withdraw(), _write(view, "Failed", reason, message, is_stalled=True)]
    if view.claim is None:
        return _provision(view)
    name = claim_name(meta)
    if not is_of(view.claim, meta):
        return [Withdraw(), *_taken(view, view.claim, "claim")]
    if view.claim.metadata.deletion_timestamp is not None:
        message = f"claim {name} was deleted and is recreated when the last pod that mounts it has ended"
        removal = [DeleteModelJob()] if _must_delete_job(view) else []
        return [Withdraw(), *removal, _reset(view, "ClaimTerminating", message), Requeue(_PENDING_S)]
    if view.served == view.wanted:
        return [Withdraw(), _ready(view), Requeue(_READY_S)]
    return [Withdraw(), *_decide_job(view, now)]


def _provision(view: ModelObjectView) -> list[Action]:
    name, failure = claim_name(view.model.metadata), view.creation_failure
    if failure is None:
        return [ProvisionClaim(), _reset(view, "Queued", queued_message(name, view.position)), Requeue(_PENDING_S)]
    message = f"claim {name} cannot be created: {failure.message}; Larder retries"
    write = _reset(view, failure.reason or "ClaimRefused", message)
    if failure.retry_s:
        return [write, Requeue(failure.retry_s)]
    return [write, ProvisionClaim(), Requeue(_PENDING_S)]


def _decide_job(view: ModelObjectView, now: datetime) -> list[Action]:
    job, download = view.job, wanted_download(view)
    if job is None:
        return _start(view, download)
    name = job_name(view.model.metadata)
    if not is_of(job, view.model.metadata):
        return _taken(view, job, "Job")
    if job.metadata.deletion_timestamp is not None:
        message = f"an earlier Job {name} is being deleted; the next one starts once its pods have ended"
        return [_write(view, "Pending", "Starting", message), Requeue(_AGAIN_S)]
    if job.metadata.labels.get(WANTED_LABEL) != download.label or _has_other_settings(view, job):
        message = f"Job {name}, which was created for an earlier spec, is deleted first"
        return [DeleteModelJob(), _write(view, "Pending", "Starting", message), Requeue(_AGAIN_S)]
    outcome = outcome_of(job, view.pods, now)
    match outcome:
        case DownloadRunning():
            return [_running(view, outcome, now), Requeue(_DOWNLOADING_S)]
        case DownloadCompleted():
            return [_completed(view, download, job, outcome, now), Requeue(_READY_S)]
        case DownloadFailed() if job.end is not None and job.end.type == "Complete":
            gone = DownloadCompleted("")  # its pods, which named the revision, are gone
            return [_completed(view, download, job, gone, now), Requeue(_READY_S)]
        case DownloadFailed("InsufficientStorage") if _has_grown(view, job, download):
            message = "the claim is larger than when its download failed, so it starts again"
            return [DeleteModelJob(), _write(view, "Pending", "Retrying", message), Requeue(_AGAIN_S)]
        case DownloadFailed(reason, message):
            advice = f"{message}; delete Job {name} to try again"
            failed = _write(view, "Failed", reason, advice, is_stalled=True)
            return [replace(failed, ended=_end(view, job, now, reason)), Requeue(_FAILED_S)]


def _has_other_settings(view: ModelObjectView, job: Job) -> bool:
    """Return whether the node selector or the Secret of the spec has changed, neither of which a Job can change."""
    settings = settings_digest(view.model.spec)
    return job.metadata.labels.get(SETTINGS_LABEL, settings) != settings  # the Jobs of older releases have no label


def _has_grown(view: ModelObjectView, job: Job, download: ModelDownload) -> bool:
    """Return whether the claim asked for another size when the Job was created, and its volume has the new one."""
    resize = _resize(view)
    return job.metadata.labels.get(SIZE_LABEL) != download.size and (resize is None or resize.reason != GROWING)


def _start(view: ModelObjectView, download: ModelDownload) -> list[Action]:
    if view.model.status.phase == "Failed" and not view.job_refused:
        return [_reset(view, "Retrying", "the download starts again"), Requeue(_AGAIN_S)]
    if view.job_refused:
        message = f"the download's Job cannot be created: {view.job_refused}; Larder retries"
        return [_write(view, "Pending", "JobRefused", message), Requeue(_FAILED_S)]
    if not download.path and view.root != view.wanted:  # recorded before anything can be written there
        begun = {"claim_uid": download.claim_uid, "root_download": view.wanted, "progress": 0}
        fields = dict.fromkeys(_OF_CLAIM, "") | begun
        return [_write(view, "Pending", "Starting", "the download starts", fields=fields), Requeue(_AGAIN_S)]
    write = _write(view, "Downloading", "Downloading", IN_PROGRESS, fields={"progress": 0})
    return [StartModelDownload(download), write, Requeue(_PENDING_S)]


def _running(view: ModelObjectView, running: DownloadRunning, now: datetime) -> WriteModelStatus:
    """Return the status while the Job runs; a reason why the claim gets no volume takes precedence."""
    fields = {} if view.served else {"progress": max(view.percent, view.model.status.progress)}
    problem = unbound_reason(view.claim, view.storage_class, now, _REMEDY)
    reason, message = problem or (running.reason or "Downloading", running.message or IN_PROGRESS)
    return _write(view, "Downloading", reason, message, fields=fields)


def _completed(
    view: ModelObjectView, download: ModelDownload, job: Job, outcome: DownloadCompleted, now: datetime
) -> WriteModelStatus:
    done = {"downloaded": download.wanted, "claim_uid": download.claim_uid, "path": download.path}
    end = _end(view, job, now)
    ended = replace(end, downloaded_bytes=outcome.downloaded_bytes, reused_bytes=outcome.reused_bytes)
    return replace(_ready(view, done | {"revision": outcome.revision}), ended=ended)


def _end(view: ModelObjectView, job: Job, now: datetime, reason: str = "") -> DownloadEnd:
    ended = datetime.fromisoformat(job.status.completion_time) if job.status.completion_time else now
    duration_s = (ended - datetime.fromisoformat(job.metadata.creation_timestamp)).total_seconds()
    scheme = str(source_of(view.model.spec).uri).partition("://")[0]
    return DownloadEnd(job.metadata.uid, scheme, reason, max(duration_s, 0.0))


def _ready(view: ModelObjectView, fields: Mapping[str, Any] | None = None) -> WriteModelStatus:
    message = f"every file is verified on claim {claim_name(view.model.metadata)}"
    return WriteModelStatus("Ready", "Ready", message, fields={"progress": 100} | dict(fields or {}))


def wanted_download(view: ModelObjectView) -> ModelDownload:
    """Return the download that is due: to the root of the claim, or to a directory if another one began there."""
    uid, size = (view.claim.metadata.uid, view.claim.requested) if view.claim is not None else ("", "")
    if not view.has_other_files:
        return ModelDownload(view.wanted, uid, size=size)
    path = f"{REVISIONS}/{view.wanted}"
    needed = (view.model.status.path or ".") if view.served else path
    kept = () if view.mounted is None else tuple(sorted({needed, *view.mounted}))
    return ModelDownload(view.wanted, uid, path, kept, size, view.node)


def _taken(view: ModelObjectView, found: Object, what: str) -> list[Action]:
    reason, message = reason_of_taken_name(found, view.model.metadata, what)
    if reason == EARLIER:
        return [_reset(view, reason, message), Requeue(_PENDING_S)]
    return [_write(view, "Failed", reason, message, is_stalled=True), Requeue(_FAILED_S)]


def _must_delete_job(view: ModelObjectView) -> bool:
    job = view.job
    return job is not None and is_of(job, view.model.metadata) and job.metadata.deletion_timestamp is None


def _reset(view: ModelObjectView, reason: str, message: str) -> WriteModelStatus:
    """Return the status of a Model whose download starts again; what is known of a claim goes with the claim."""
    progress = {} if view.served else {"progress": 0}
    known = {} if view.served or view.root else dict.fromkeys(_OF_CLAIM, "")
    return _write(view, "Pending", reason, message, fields=progress | known)


def _write(
    view: ModelObjectView,
    phase: ModelPhase,
    reason: str,
    message: str,
    *,
    is_stalled: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> WriteModelStatus:
    """Return a status; a model that is complete in an earlier version stays Ready and reports this as its update."""
    if view.served:
        ready = f"an earlier version is served; the update: {message}"
        return WriteModelStatus("Ready", "Ready", ready, update=(reason, message), fields=fields or {})
    return WriteModelStatus(phase, reason, message, is_stalled, fields=fields or {})
