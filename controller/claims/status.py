"""Translates a claim result into OME's status."""

from controller.claims.decide import WriteClaimStatus
from controller.claims.result import NOT_PERMITTED, ON_CLAIM, WAITS, ClaimResult
from controller.claims.view import ClaimView
from controller.manager.conditions import (
    DRIFTED,
    REFRESHED,
    REMOVING,
    UPDATING,
    ConditionUpdate,
    kstatus_condition,
    with_conditions,
)
from shared.api.base_model import BaseModelStatus
from shared.api.meta import ReadMetadata, condition_of
from shared.quantity import printed_bytes

_OF_NODES = (DRIFTED, REFRESHED, UPDATING, REMOVING)
_NEEDS_ADMIN = (NOT_PERMITTED, "JobRefused")


def claim_status(view: ClaimView, action: WriteClaimStatus, stamp: str) -> BaseModelStatus:
    """Return the status; fields and conditions that only a model on nodes has are cleared."""
    before, result = view.status, action.claim_result
    resolved = ConditionUpdate(
        "Resolved", "True", ON_CLAIM, "a model on a claim has no revisions; pods read the current files"
    )
    message = "the model is on a claim, so no node downloads it, and nodes remove their copies"
    obsolete = [
        ConditionUpdate(kind, "False", ON_CLAIM, message) for kind in _OF_NODES if condition_of(before.conditions, kind)
    ]
    read = action.metadata.values.get("sizeBytes", 0) if action.metadata else 0
    size = read if isinstance(read, int) else 0
    return BaseModelStatus(
        conditions=with_conditions(
            before.conditions,
            [result.ready, resolved, result.metadata, *obsolete, *_progress(result, action.metadata)],
            stamp,
            view.generation,
        ),
        observed_generation=view.generation,
        source=view.demand.uri,
        refreshed=action.refreshed,
        size=size,
        printed_size=printed_bytes(size),
        metadata=action.metadata,
        state=result.state,
        lifecycle=before.lifecycle,
    )


def _progress(result: ClaimResult, metadata: ReadMetadata | None) -> list[ConditionUpdate]:
    """Return the progress conditions: an unbound claim may still be bound, but a Job that gave up does not recover."""
    if result.state == "Ready":
        return []
    reason = result.ready.reason
    given_up = metadata is not None and metadata.unchecked and reason != WAITS
    stuck = reason in _NEEDS_ADMIN or given_up or (result.state == "Failed" and reason != "PVCNotBound")
    return [kstatus_condition(result.ready, stalled=stuck)]
