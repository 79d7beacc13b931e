"""Explains why the claim of a ModelCache or Model, which a Job fills, has no model yet. No input or output."""

from collections.abc import Mapping, Sequence

from controller.cli.why.findings import Diagnosis, Finding, fact, ordered, stop, wait
from controller.cli.why.nodes import leader_findings
from controller.cli.why.remedies import remedy
from controller.cli.why.view import ClusterView
from controller.modelcaches.report import is_under_way
from shared.api.meta import STALLED, Condition, condition_of, holds
from shared.api.model import Model
from shared.api.model_cache import ModelCache
from shared.kube.objects import Meta

_ALSO_UNDER_WAY = ("Queued", "Retrying")
# Where the remedy for a model on nodes would be wrong: a Job downloads to a volume
_REMEDIES = {
    "DeadlineExceeded": "if this repeats, check the speed of the source and of the volume",
    "InternalError": "report it, with the log of the Job's pod",
    "OutOfMemory": "if this repeats, report it with the log of the Job's pod",
    "StoreFailure": "check the claim's volume, and the log of the Job's pod",
}
_CACHE_REMEDIES = _REMEDIES | {
    "InsufficientStorage": "raise resources.requests.storage of the claim if its class can expand volumes; otherwise "
    "recreate the cache with a larger request",
}
_MODEL_REMEDIES = _REMEDIES | {
    "InsufficientStorage": "raise spec.storage.size if the storage class can expand volumes; otherwise recreate the "
    "Model with a larger size",
}


def why_model_cache(cache: ModelCache, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a ModelCache from its own status, since no node is involved."""
    status, title = cache.status, _title("ModelCache", cache.metadata)
    seen = status.observed_generation >= cache.metadata.generation
    finding = _of_status(title, status.conditions, "modelCaches.enabled", _CACHE_REMEDIES, seen=seen)
    return Diagnosis(title, ordered([*leader_findings(cluster), finding]), failed=status.storage_status == "Failed")


def why_model_object(model: Model, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a Model, like that of a ModelCache."""
    status, title = model.status, _title("Model", model.metadata)
    seen = status.observed_generation >= model.metadata.generation
    finding = _of_status(title, status.conditions, "models.enabled", _MODEL_REMEDIES, seen=seen)
    return Diagnosis(title, ordered([*leader_findings(cluster), finding]), failed=status.phase == "Failed")


def _title(kind: str, meta: Meta) -> str:
    return f"{kind} {meta.namespace}/{meta.name}"


def _of_status(
    title: str, conditions: Sequence[Condition], setting: str, remedies: Mapping[str, str], *, seen: bool
) -> Finding:
    ready = condition_of(conditions, "Ready")
    if ready is None or not seen:
        message = "the controller has not observed its latest spec"
        advice = f"check that a controller replica is the leader, and that {setting} is true in the chart"
        return wait(title, "NotObserved", message, advice)
    if ready.status == "True":
        return fact(title, ready.reason, ready.message)
    passes = is_under_way(ready.reason) or ready.reason in _ALSO_UNDER_WAY
    if passes and not holds(conditions, STALLED):
        return wait(title, ready.reason, ready.message)
    return stop(title, ready.reason, ready.message, remedy(ready.reason, remedies))
