"""What the user is told of a model on a claim. No input or output, no clock."""

from dataclasses import dataclass

from controller.claims.contention import CLAIM_IN_USE
from controller.claims.outcome import Running
from controller.claims.view import NAMESPACE_LABEL, ClaimView, Order
from controller.claims.wanted import LONGEST_WAIT, kept_of
from controller.metadata.fill import is_written
from controller.metadata.kept import METADATA, again_at
from controller.models.revisions import Told
from shared.api.base_model import State

ON_CLAIM = "OnClaim"
READING = "Reading"
WAITS = "WaitForFirstConsumer"
# What keeps pods from the model: with these they are refused. Whatever else is wrong, the claim can be mounted.
BLOCKING = frozenset(
    (
        "NamespaceNotAllowed",
        "PVCDeleting",
        "PVCLost",
        "PVCNotBound",
        "PVCNotFound",
        "PVCNotMountable",
        "PathNotFound",
        READING,
        "UnsafePath",
    )
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """OME's state, whether pods can use the model, and whether it is known what the model is."""

    state: State
    ready: Told
    metadata: Told


def verdict(view: ClaimView, order: Order | None, running: Running) -> Verdict:
    """Return what to tell; `order` is the reading that is wanted, `running` what hinders it."""
    return Verdict(*_ready(view, order, running), _metadata(view, order, running))


def _ready(view: ClaimView, order: Order | None, running: Running) -> tuple[State, Told]:
    problem = claim_problem(view)
    if problem is not None:
        return problem
    kept = kept_of(view)
    if kept is not None and kept.missing and not view.skip:
        return "Failed", Told("Ready", "False", kept.reason, _with_retry(view, kept.message))
    if view.claim is not None and view.claim.status.phase != "Bound":
        return "In_Transit", _waits(view, order, running)
    if kept is None and order is not None:
        reading = f"a Job reads {view.place.sub_path} on PVC {view.place.claim}; pods are taken when it has looked"
        return "In_Transit", Told("Ready", "False", running.reason or READING, running.message or reading)
    return "Ready", _usable(view)


def claim_problem(view: ClaimView) -> tuple[State, Told] | None:
    """Return why the claim cannot be used at all, None where it can, or will by itself."""
    place, claim = view.place, view.claim
    if view.refused:
        words = f"the controller may not look at it: {view.refused}; upgrade the chart, or give that right"
        return "In_Transit", Told("Ready", "Unknown", "NotPermitted", words)
    if not view.allowed:
        words = (
            f"ClusterBaseModels may be on claims of labelled namespaces alone; label namespace {place.namespace} "
            f"{NAMESPACE_LABEL}=true, or declare a BaseModel there"
        )
        return _failed("NamespaceNotAllowed", words)
    if claim is None:
        words = f"PVC {place.claim} not found in namespace {place.namespace}; create it, or correct storageUri"
        return _failed("PVCNotFound", words)
    if claim.spec.volume_mode == "Block":
        words = f"PVC {place.claim} is a raw device (volumeMode: Block), which has no files; put the model on another"
        return _failed("PVCNotMountable", words)
    phase = claim.status.phase or "Pending"
    if phase == "Lost":
        words = f"PVC {place.claim} lost its volume {claim.spec.volume_name} (phase: Lost); bring the volume back, "
        return _failed("PVCLost", words + "or delete the claim and make it anew")
    if claim.metadata.deletion_timestamp is not None:
        words = f"PVC {place.claim} is being deleted (phase: {phase}): no new pod can use it; make it anew when it went"
        return _failed("PVCDeleting", words)
    if phase != "Bound" and not view.waits_for_consumer:
        look = f"kubectl describe pvc {place.claim} -n {place.namespace} tells what it waits for"
        return _failed("PVCNotBound", f"PVC {place.claim} not bound (phase: {phase}); {look}")
    return None


def _failed(reason: str, message: str) -> tuple[State, Told]:
    return "Failed", Told("Ready", "False", reason, message)


def _waits(view: ClaimView, order: Order | None, running: Running) -> Told:
    who = "the Job that reads it" if order is not None else "the first pod that uses it"
    message = f"PVC {view.place.claim} not bound (phase: Pending): its class waits for {who}"
    return Told("Ready", "False", WAITS, f"{message}; {running.message}" if running.message else message)


def _metadata(view: ClaimView, order: Order | None, running: Running) -> Told:
    kept = kept_of(view)
    if view.skip:
        return Told(METADATA, "Unknown", "Skipped", "annotation ome.io/skip-config-parsing is true: nothing is read")
    if running.reason:
        return Told(METADATA, "Unknown", running.reason, running.message)
    if kept is not None and kept.reason:
        return Told(METADATA, "False", kept.reason, _with_retry(view, kept.message))
    if kept is not None:
        remark = f", but {kept.message}" if kept.message else ""
        again = "; it is read again" if order is not None else ""
        words = f"read from {view.place.sub_path} on PVC {view.place.claim}{remark}{again}"
        return Told(METADATA, "True", "Read", words)
    if order is not None and claim_problem(view) is None:
        return Told(METADATA, "Unknown", READING, f"a Job reads {view.place.sub_path} on PVC {view.place.claim}")
    if is_written(view.spec, view.status.metadata):
        return Told(METADATA, "True", "Written", "the spec has all of it, so nothing is read")
    return Told(METADATA, "Unknown", "NoClaim", "nothing can be read while the claim cannot be used")


def _with_retry(view: ClaimView, message: str) -> str:
    kept = view.status.metadata
    if kept is None or (is_written(view.spec, kept) and not kept.missing):
        return message
    again = again_at(kept, LONGEST_WAIT).strftime("%H:%M UTC")
    return f"{message}; read again at {again}, or at once with another value of annotation larder.dev/refresh"


def _usable(view: ClaimView) -> Told:
    """Return who can mount it. Whoever has the volume goes on: the model stays Ready while other pods wait for it."""
    place = view.place
    where = "from many nodes at a time"
    if view.one_pod:
        where = "one pod at a time"
    elif view.one_node:
        where = "on one node at a time"
    modes = ", ".join(sorted(view.modes))
    words = f"pods of namespace {place.namespace} mount {place.sub_path} of PVC {place.claim} ({modes}), {where}"
    if not view.waits:
        return Told("Ready", "True", ON_CLAIM, words)
    more = f" ({len(view.waits) - 1} more wait)" if view.waits[1:] else ""
    return Told("Ready", "True", CLAIM_IN_USE, f"{view.waits[0].words}{more}; {words}")
