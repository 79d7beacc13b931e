"""Decides from a view of a model on a claim what to do for it. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from controller.claims.contention import CLAIM_IN_USE, limit_of
from controller.claims.outcome import BLOCKING_REASONS, Outcome, outcome_of
from controller.claims.read_request import LONGEST_WAIT, ClaimReadRequest, request_of, stored_metadata
from controller.claims.result import ClaimResult, claim_problem, claim_result
from controller.claims.view import ClaimView
from controller.jobs.blocker import StillRunning
from controller.jobs.observed_jobs import ClaimPod
from controller.manager.actions import Requeue, WriteSpec
from controller.manager.conditions import METADATA
from controller.metadata.fill import fields_to_write
from controller.metadata.stored_reading import retry_at, stored_reading
from shared.api.meta import ReadMetadata, condition_of
from shared.metadata.reading.termination_message import MAX_MESSAGE, Reading

_IDLE_S = 300.0  # a fallback for claims that may not be watched; a watch delivers within a second
_LABELS_S = 30.0  # labels of namespaces are not watched
_BUSY_S = 10.0
_REFUSED_S = 60.0


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start reading the files; `holder` is the pod whose node the Job's pod must share."""

    request: ClaimReadRequest
    holder: ClaimPod | None


@dataclass(frozen=True, slots=True)
class WriteClaimStatus:
    """Write the status; `metadata` is the new known metadata."""

    claim_result: ClaimResult
    metadata: ReadMetadata | None
    refreshed: str


Action: TypeAlias = StartJob | WriteSpec | WriteClaimStatus | Requeue


def decide(view: ClaimView, now: datetime, *, requires_label: bool = False) -> list[Action]:
    """Return the actions, in order; `requires_label`: only labelled namespaces may be used."""
    request = request_of(view, now) if claim_problem(view) is None else None
    if request is None:
        return [
            *_fill(view, stored_metadata(view)),
            _write_status(view, None, StillRunning()),
            Requeue(_idle_s(view, now, requires_label=requires_label)),
        ]
    if view.job is None:
        blocker = _in_use(view)
        if view.job_refused:
            blocker = StillRunning(
                "JobRefused", f"the Job that reads the metadata cannot be created: {view.job_refused}"
            )
        if blocker is not None:
            return [_write_status(view, request, blocker), Requeue(_REFUSED_S if view.job_refused else _BUSY_S)]
        return [StartJob(request, _holder(view)), _write_status(view, request, StillRunning()), Requeue(_BUSY_S)]
    outcome = _explained(view, outcome_of(view.job, view.pods, now))
    if isinstance(outcome, StillRunning):
        return [_write_status(view, request, outcome), Requeue(_BUSY_S)]
    stored = stored_reading(outcome, stored_metadata(view), request.identity, request.attempt, now)
    filling = _fill(view, stored)
    status = msgspec.structs.replace(view.status, metadata=stored)
    after = replace(view, spec=_filled(view.spec, filling), status=status)
    write = WriteClaimStatus(claim_result(after, None, StillRunning()), stored, view.demand.refresh)
    return [*filling, write, Requeue(_idle_s(after, now, requires_label=requires_label))]


def _filled(spec: Mapping[str, Any], writes: list[WriteSpec]) -> dict[str, Any]:
    """Return the spec after these writes; values from an earlier reading do not count as the user's."""
    fields = {name: value for write in writes for name, value in write.fields.items()}
    return {name: value for name, value in {**spec, **fields}.items() if value is not None}


def _fill(view: ClaimView, stored: ReadMetadata | None) -> list[WriteSpec]:
    """Return writes for fields of the spec that are empty or from an earlier reading, perhaps of another claim."""
    if stored is None or view.skip:
        return []
    fields = fields_to_write(view.spec, view.status.metadata, stored.values)
    return [WriteSpec(fields)] if fields else []


def _write_status(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> WriteClaimStatus:
    return WriteClaimStatus(claim_result(view, request, running), view.status.metadata, view.status.refreshed)


def _in_use(view: ClaimView) -> StillRunning | None:
    """Return the blocker if the Job would wait for another pod and block the next one, or None."""
    if not view.one_pod or not view.users:
        return None
    user = view.users[0].metadata.name
    message = (
        f"PVC {view.place.claim} is ReadWriteOncePod and in use by pod {user}; the metadata is read once that pod ends"
    )
    return StillRunning(CLAIM_IN_USE, message)


def _holder(view: ClaimView) -> ClaimPod | None:
    return view.users[0] if view.one_node and view.users else None


def _explained(view: ClaimView, outcome: Outcome) -> Outcome:
    """Return the outcome with more detail: who holds the volume, and what blocked the Job until it ended."""
    match outcome:
        case StillRunning("Unschedulable" | "MountPending", message) if view.users:
            user, limit = view.users[0], limit_of(view.claim)
            where = f"attached to node {user.spec.node_name} for pod {user.metadata.name}"
            return StillRunning(CLAIM_IN_USE, f"PVC {view.place.claim} is {limit} and {where}; {message}")
        case Reading(reason="DeadlineExceeded" | "JobFailed"):
            last = condition_of(view.status.conditions, METADATA)
            if last is not None and last.reason in BLOCKING_REASONS:
                message = f"{last.message} (gave up: {outcome.message})"[:MAX_MESSAGE]
                return Reading(found=outcome.found, reason=last.reason, message=message)
    return outcome


def _idle_s(view: ClaimView, now: datetime, *, requires_label: bool) -> float:
    waits = [_LABELS_S if requires_label else _IDLE_S]
    if view.refused:
        waits.append(_REFUSED_S)  # granted permissions trigger nothing
    if view.waits or view.starting or not view.allowed:
        waits.append(_BUSY_S)  # nor does the mounting of a volume, and a user is waiting
    stored = stored_metadata(view)
    if stored is not None and stored.reason:
        waits.append(max((retry_at(stored, LONGEST_WAIT) - now).total_seconds(), 1.0))
    return min(waits)
