"""What users see of a model on a claim. No input or output, no clock."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from controller.claims.contention import CLAIM_IN_USE
from controller.claims.read_request import LONGEST_WAIT, ClaimReadRequest, stored_metadata
from controller.claims.view import NAMESPACE_LABEL, ClaimView
from controller.jobs.blocker import StillRunning
from controller.manager.conditions import METADATA, ConditionUpdate
from controller.metadata.fill import is_written
from controller.metadata.stored_reading import retry_at
from shared.api.base_model import State
from shared.api.core import BOUND
from shared.api.meta import Condition, condition_of

ON_CLAIM = "OnClaim"
READING = "Reading"
WAITS = "WaitForFirstConsumer"
NOT_PERMITTED = "NotPermitted"
_SKIPPED, _WRITTEN = "Skipped", "Written"


class _Ready(Protocol):
    @property
    def status(self) -> str: ...

    @property
    def reason(self) -> str: ...


def takes_pods(ready: _Ready) -> bool:
    """Return whether pods may mount the model, by its Ready condition: the path was checked, or a pod must bind it.

    Kubelet would create a missing directory on the claim, so no pod may mount it before the path has been checked.
    """
    return ready.status == "True" or ready.reason == WAITS


def is_read_later(conditions: Iterable[Condition]) -> bool:
    """Return whether a Job will read a claim that is not bound yet, by a model's conditions."""
    metadata = condition_of(conditions, METADATA)
    return metadata is not None and metadata.reason not in (_SKIPPED, _WRITTEN)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """OME's state, whether pods can use the model, and whether its metadata is known."""

    state: State
    ready: ConditionUpdate
    metadata: ConditionUpdate


def claim_result(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> ClaimResult:
    """Return the result; `request` asks for the files to be read, `running` is what blocks it."""
    return ClaimResult(*_ready(view, request, running), _metadata(view, request, running))


def _ready(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> tuple[State, ConditionUpdate]:
    problem = claim_problem(view)
    if view.refused and _was_usable(view):
        return "Ready", ConditionUpdate(
            "Ready", "True", NOT_PERMITTED, f"pods mount the claim as before, but {_refusal(view)}"
        )
    if problem is not None:
        return problem
    stored = stored_metadata(view)
    if stored is not None and stored.missing and not view.skip:
        return "Failed", ConditionUpdate("Ready", "False", stored.reason, _with_retry(view, stored.message))
    if view.claim is not None and view.claim.status.phase != BOUND:
        return "In_Transit", _waits(view, request, running)
    unchecked = _unchecked(view, request, running)
    return ("In_Transit", unchecked) if unchecked is not None else ("Ready", _usable(view))


def _unchecked(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> ConditionUpdate | None:
    """Return the condition while the sub-path has not been checked yet, or None if pods may use it."""
    stored, place = stored_metadata(view), view.place
    if stored is not None and not stored.unchecked:
        return None
    if request is None:
        if stored is None or view.skip or is_written(view.spec, stored):
            return None
        message = f"{place.sub_path} on PVC {place.claim} has not been checked, so pods wait: "
        return ConditionUpdate("Ready", "False", stored.reason, message + _with_retry(view, stored.message))
    until = f"pods wait until a Job has checked {place.sub_path} on PVC {place.claim}"
    if running.reason:
        return ConditionUpdate("Ready", "False", running.reason, f"{running.message}; {until}")
    if stored is not None:
        return ConditionUpdate("Ready", "False", stored.reason, f"{stored.message}; {until}; the check is in progress")
    return ConditionUpdate("Ready", "False", READING, f"{until}; the check is in progress")


def _was_usable(view: ClaimView) -> bool:
    """Return whether the sub-path was checked while the controller could still read the claim."""
    stored = view.status.metadata
    return stored is not None and view.status.source == view.demand.uri and not (stored.missing or stored.unchecked)


def _refusal(view: ClaimView) -> str:
    return (
        f"the controller may not read PVC {view.place.claim}: {view.refused}; upgrade the chart, or grant that "
        "permission"
    )


def claim_problem(view: ClaimView) -> tuple[State, ConditionUpdate] | None:
    """Return why the claim cannot be used at all; None if it can, or will be usable without any action."""
    place, claim = view.place, view.claim
    if view.refused:
        return "In_Transit", ConditionUpdate("Ready", "Unknown", NOT_PERMITTED, _refusal(view))
    if not view.allowed:
        message = (
            f"ClusterBaseModels may use claims only in labelled namespaces; label namespace {place.namespace} "
            f"{NAMESPACE_LABEL}=true, or declare a BaseModel there"
        )
        return _failed("NamespaceNotAllowed", message)
    if claim is None:
        form = "pvc://CLAIM/SUB-PATH" if view.demand.namespace else "pvc://NAMESPACE/CLAIM/SUB-PATH"
        message = f"PVC {place.claim} not found in namespace {place.namespace}; create it, or correct "
        return _failed("PVCNotFound", f"{message}storageUri ({form})")
    if claim.spec.volume_mode == "Block":
        message = (
            f"PVC {place.claim} is a block device (volumeMode: Block) without files; put the model on another claim"
        )
        return _failed("PVCNotMountable", message)
    phase = claim.status.phase or "Pending"
    if phase == "Lost":
        message = f"PVC {place.claim} lost its volume {claim.spec.volume_name} (phase: Lost); restore the volume, "
        return _failed("PVCLost", message + "or delete and recreate the claim")
    if claim.metadata.deletion_timestamp is not None:
        message = f"PVC {place.claim} is being deleted (phase: {phase}), so no new pod can use it; "
        return _failed("PVCDeleting", message + "recreate it once it is gone")
    if phase != BOUND and not view.waits_for_consumer:
        look = f"see kubectl describe pvc {place.claim} -n {place.namespace}"
        return _failed("PVCNotBound", f"PVC {place.claim} not bound (phase: {phase}); {look}")
    return None


def _failed(reason: str, message: str) -> tuple[State, ConditionUpdate]:
    return "Failed", ConditionUpdate("Ready", "False", reason, message)


def _waits(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> ConditionUpdate:
    who = "the Job that reads it" if request is not None else "the first pod that uses it"
    message = f"PVC {view.place.claim} not bound (phase: Pending): its storage class waits for {who}"
    return ConditionUpdate("Ready", "False", WAITS, f"{message}; {running.message}" if running.message else message)


def _metadata(view: ClaimView, request: ClaimReadRequest | None, running: StillRunning) -> ConditionUpdate:
    stored = stored_metadata(view)
    if view.skip:
        return ConditionUpdate(
            METADATA, "Unknown", _SKIPPED, "annotation ome.io/skip-config-parsing is true, so nothing is read"
        )
    if running.reason:
        return ConditionUpdate(METADATA, "Unknown", running.reason, running.message)
    if stored is not None and stored.reason:
        return ConditionUpdate(METADATA, "False", stored.reason, _with_retry(view, stored.message))
    if stored is not None:
        remark = f", but {stored.message}" if stored.message else ""
        again = "; it is being read again" if request is not None else ""
        message = f"read from {view.place.sub_path} on PVC {view.place.claim}{remark}{again}"
        return ConditionUpdate(METADATA, "True", "Read", message)
    if request is not None and claim_problem(view) is None:
        return ConditionUpdate(
            METADATA, "Unknown", READING, f"a Job is reading {view.place.sub_path} on PVC {view.place.claim}"
        )
    if is_written(view.spec, view.status.metadata):
        return ConditionUpdate(METADATA, "True", _WRITTEN, "the spec has all metadata, so nothing is read")
    return ConditionUpdate(METADATA, "Unknown", "NoClaim", "nothing can be read while the claim cannot be used")


def _with_retry(view: ClaimView, message: str) -> str:
    stored = view.status.metadata
    if stored is None or (is_written(view.spec, stored) and not stored.missing):
        return message
    again = retry_at(stored, LONGEST_WAIT).strftime("%H:%M UTC")
    return f"{message}; retried at {again}, or at once when annotation larder.dev/refresh changes"


def _usable(view: ClaimView) -> ConditionUpdate:
    """Return which pods can mount the claim; the model stays Ready while others wait for the pod that holds it."""
    place = view.place
    where = "from many nodes at a time"
    if view.one_pod:
        where = "one pod at a time"
    elif view.one_node:
        where = "on one node at a time"
    modes = ", ".join(sorted(view.modes))
    mounted = f"{place.sub_path} of PVC {place.claim} ({modes})"
    message = f"pods of namespace {place.namespace} can mount {mounted}, {where}"
    if not view.waits:
        return ConditionUpdate("Ready", "True", ON_CLAIM, message)
    more = f" ({len(view.waits) - 1} more wait)" if view.waits[1:] else ""
    return ConditionUpdate("Ready", "True", CLAIM_IN_USE, f"{view.waits[0].message}{more}; {message}")
