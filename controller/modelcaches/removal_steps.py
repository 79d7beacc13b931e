"""Decides which objects are removed with a ModelCache, and in which order. No input or output, no clock."""

from datetime import datetime, timedelta

from controller.manager.actions import DeleteClaim, RemoveFinalizer, Requeue, Withdraw
from controller.modelcaches.actions import (
    BUSY_S,
    IDLE_S,
    Action,
    DeleteCacheVolume,
    DeleteJob,
    ListClaimUsers,
    Removal,
    WriteCacheStatus,
)
from controller.modelcaches.view import ModelCacheView

_RECHECK_FRACTION = (
    0.25  # of the time since the deletion: the longer pods use the cache, the less often they are listed
)


def job_removal(view: ModelCacheView) -> list[DeleteJob]:
    """Return the deletion of the Job: even a pod that has ended keeps a deleted claim from going away."""
    found = view.job
    return [DeleteJob(found.metadata)] if found and found.metadata.deletion_timestamp is None else []


def running_job_removal(view: ModelCacheView) -> list[DeleteJob]:
    """Return the deletion of a Job that still downloads."""
    return job_removal(view) if view.job is not None and view.job.end is None else []


def decide_deleted(view: ModelCacheView, now: datetime, finalizer_s: float) -> list[Action]:
    """Return what to do for a deleted cache: wait for its pods, then remove its objects, then its finalizer."""
    if not view.has_finalizer:
        return []
    if view.may_be_created:
        waits = WriteCacheStatus("Deleting", "Deleting", f"the creation of claim {view.claim_name} is being stopped")
        return [Withdraw(), waits, Requeue(BUSY_S)]
    if view.users is None:
        return [ListClaimUsers()]
    deleted = datetime.fromisoformat(view.cache.metadata.deletion_timestamp or "")
    if view.users:
        message = f"the cache is deleted once these pods have ended: {', '.join(view.users[:5])}"
        pause_s = (now - deleted).total_seconds() * _RECHECK_FRACTION
        return [WriteCacheStatus("Deleting", "InUse", message), Requeue(min(max(pause_s, BUSY_S), IDLE_S))]
    end = deleted + timedelta(seconds=finalizer_s)
    steps = _removals(view)
    if not steps or now >= end:
        return [*_volume_removal(view), RemoveFinalizer()]
    waits = WriteCacheStatus("Deleting", "Deleting", f"claim {view.claim_name} is being deleted")
    return [*(step for step in steps if step is not None), waits, Requeue(BUSY_S)]


def _removals(view: ModelCacheView) -> list[Removal | None]:
    """Return the objects that are left to remove; None for each that is already being deleted."""
    found: list[Removal | None] = []
    if view.job is not None:
        found += job_removal(view) or [None]
    if view.claim is not None and view.is_ours:
        going = view.claim.metadata.deletion_timestamp is not None
        found.append(None if going else DeleteClaim(view.claim.metadata))
    elif view.volume is not None:
        found += _volume_removal(view) or [None]
    return found


def _volume_removal(view: ModelCacheView) -> list[DeleteCacheVolume]:
    """Return the deletion of the volume: Kubernetes deletes Job and claim with the cache, but not the volume.

    A volume that is deleted before its claim stays until the claim is gone.
    """
    found = view.volume
    return [DeleteCacheVolume(found.metadata)] if found and found.metadata.deletion_timestamp is None else []
