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
    progress,
    with_conditions,
)
from shared.api.base_model import BaseModelStatus
from shared.api.meta import ReadMetadata, condition_of
from shared.quantity import printed_bytes

_OF_NODES = (DRIFTED, REFRESHED, UPDATING, REMOVING)
_FOR_SOMEBODY = (NOT_PERMITTED, "JobRefused")


def claim_status(view: ClaimView, told: WriteClaimStatus, stamp: str) -> BaseModelStatus:
    """Return the status, without what a model on nodes had there before."""
    before, found = view.status, told.claim_result
    resolved = ConditionUpdate(
        "Resolved", "True", ON_CLAIM, "a model on a claim has no revisions: pods read what is there"
    )
    words = "the model is on a claim: no node fetches it, and what nodes had of it they remove"
    over = [
        ConditionUpdate(kind, "False", ON_CLAIM, words) for kind in _OF_NODES if condition_of(before.conditions, kind)
    ]
    read = told.metadata.values.get("sizeBytes", 0) if told.metadata else 0
    size = read if isinstance(read, int) else 0
    return BaseModelStatus(
        conditions=with_conditions(
            before.conditions,
            [found.ready, resolved, found.metadata, *over, *_progress(found, told.metadata)],
            stamp,
            view.generation,
        ),
        observed_generation=view.generation,
        source=view.demand.uri,
        refreshed=told.refreshed,
        size=size,
        printed_size=printed_bytes(size),
        metadata=told.metadata,
        state=found.state,
        lifecycle=before.lifecycle,
    )


def _progress(found: ClaimResult, metadata: ReadMetadata | None) -> list[ConditionUpdate]:
    """Return the progress conditions: an unbound claim may still be bound, but a Job that gave up never recovers."""
    if found.state == "Ready":
        return []
    reason = found.ready.reason
    given_up = metadata is not None and metadata.unchecked and reason != WAITS
    stuck = reason in _FOR_SOMEBODY or given_up or (found.state == "Failed" and reason != "PVCNotBound")
    return [progress(found.ready, stuck=stuck)]
