"""Builds the frozen value that decisions are made from."""

from dataclasses import replace

from agent.reconciler.activity import Activity
from agent.reconciler.observation import Downloading, HeldSnapshot, Key, Observation, Removing, Work
from agent.reconciler.state_cache import StateCache
from agent.store.snapshot import Snapshot


def observe(cache: StateCache, activity: Activity, slots: int, now_s: float) -> Observation:
    """Return the cache as one frozen value, with the progress of downloads and removals."""
    return Observation(
        now_s=now_s,
        node_uid=cache.node.uid,
        labels=dict(cache.node.labels),
        synced=cache.synced,
        model_node=cache.model_node,
        held={key: _held(snapshot) for key, snapshot in cache.held.items()},
        frees=cache.frees,
        works={key: _with_progress(key, work, activity) for key, work in cache.works.items()},
        failures=dict(cache.failures),
        metadata=dict(cache.metadata),
        metadata_due=dict(cache.metadata_due),
        reading_metadata=cache.reading_metadata,
        skipped=frozenset(cache.skipped),
        slots=slots,
        label_patch_due_s=cache.label_patch_due_s,
        labels_refused=cache.labels_refused,
        startup_taint=replace(cache.startup_taint, present=cache.node.startup_taint),
    )


def _held(snapshot: Snapshot) -> HeldSnapshot:
    return HeldSnapshot(snapshot.manifest_digest, tuple(snapshot.damaged), snapshot.verified, bool(snapshot.unpacked))


def _with_progress(key: Key, work: Work, activity: Activity) -> Work:
    match work:
        case Downloading() if running := activity.running.get(key):
            return replace(work, retrying=activity.retrying(key), has_received=running.received > 0)
        case Removing() if removal := activity.removals.get(key):
            return Removing(removal.done, removal.total)
        case _:
            return work
