"""Builds the status of a ModelCache. No input or output, no clock."""

import msgspec

from controller.manager.conditions import ConditionUpdate, kstatus_condition, with_conditions
from controller.modelcaches.actions import DOWNLOADED, WriteCacheStatus
from shared.api.model_cache import ModelCache, ModelCacheStatus
from shared.quantity import printed_bytes


def status_of(cache: ModelCache, write: WriteCacheStatus, stamp: str) -> ModelCacheStatus:
    """Return the status."""
    fields = dict(write.fields)
    if "size" in fields:
        fields["printed_size"] = printed_bytes(fields["size"])
    is_ready = write.state == "Ready"
    ready = ConditionUpdate("Ready", "True" if is_ready else "False", write.reason, write.message)
    conditions = [ready] if is_ready else [ready, kstatus_condition(ready, stalled=write.is_stalled)]
    before = cache.status
    return msgspec.structs.replace(
        before,
        **fields,
        storage_status=write.state,
        observed_generation=cache.metadata.generation,
        conditions=with_conditions(before.conditions, conditions, stamp, cache.metadata.generation),
    )


def is_failure(write: WriteCacheStatus) -> bool:
    """Return whether the Event about a status is a warning."""
    return write.state == "Failed" or not (write.reason == DOWNLOADED or is_under_way(write.reason))


def is_under_way(reason: str) -> bool:
    """Return whether a reason of the condition Ready resolves by itself."""
    return reason in ("Resolving", "Provisioning", "Queued", "Starting", "Downloading", "Deleting", "WaitingForTurn")
