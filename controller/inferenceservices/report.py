"""What users see of a service. No input or output, no clock."""

from collections.abc import Mapping

from controller.inferenceservices.blockers import blocker_of
from controller.inferenceservices.decide import conflicts
from controller.inferenceservices.deployment import Deployment
from controller.inferenceservices.objects import url_of
from controller.inferenceservices.view import ServiceView
from controller.manager.conditions import ConditionUpdate, kstatus_condition, with_conditions
from shared.api.inference_service import InferenceServiceStatus
from shared.api.meta import condition_of

READY, MODEL_READY = "Ready", "ModelReady"
_LONGEST_MODEL = 600  # the limit of status.model; a storageUri without a model may be longer
_STUCK = frozenset(("ModelNotFound", "ModelNotManaged", "NameConflict", "NamespaceNotAllowed", "Refused", "Stalled"))


def status_of(view: ServiceView, refused: Mapping[str, str], stamp: str) -> InferenceServiceStatus:
    """Return the status; `refused` holds, by kind, the API server's message about an object that it rejected."""
    service, deployment = view.service, view.own_deployment
    ready = _ready(view, refused, deployment)
    updates = [ready, _model_ready(view), *_progress(ready)]
    return InferenceServiceStatus(
        conditions=with_conditions(service.status.conditions, updates, stamp, service.metadata.generation),
        observed_generation=service.metadata.generation,
        url=url_of(service),
        model=view.model.title[:_LONGEST_MODEL],
        serving_revision=view.model.revision,
        replicas=deployment.status.replicas if deployment else 0,
        ready_replicas=deployment.status.ready_replicas if deployment else 0,
    )


def _progress(ready: ConditionUpdate) -> list[ConditionUpdate]:
    """Return the progress conditions; none if the service is as requested."""
    as_requested = ready.reason == "Stopped" or (ready.status == "True" and ready.reason != "Updating")
    return [] if as_requested else [kstatus_condition(ready, stalled=ready.reason in _STUCK)]


def _model_ready(view: ServiceView) -> ConditionUpdate:
    model = view.model
    if not model.ready:
        return ConditionUpdate(MODEL_READY, "False", model.reason, model.message)
    what = f"get revision {model.revision} of" if model.revision else "mount the claim of"
    return ConditionUpdate(MODEL_READY, "True", "Ready", f"pods {what} {model.title}")


def _ready(view: ServiceView, refused: Mapping[str, str], deployment: Deployment | None) -> ConditionUpdate:
    meta = view.service.metadata
    if conflicting := conflicts(view):
        what = " and ".join(f"{kind} {meta.namespace}/{meta.name}" for kind in conflicting)
        them, verbs = ("it", "exists but does") if len(conflicting) == 1 else ("them", "exist but do")
        advice = f"delete {them}, or create the InferenceService under another name"
        message = f"{what} {verbs} not belong to this InferenceService; {advice}"
        return ConditionUpdate(READY, "False", "NameConflict", message)
    if refused:
        message = "; ".join(f"the API server rejected the {kind}: {error}" for kind, error in sorted(refused.items()))
        return ConditionUpdate(READY, "False", "Refused", message)
    if deployment is None:
        if not view.model.ready:
            return ConditionUpdate(READY, "False", view.model.reason, f"waiting for its model: {view.model.message}")
        return ConditionUpdate(READY, "False", "Progressing", "the Deployment is being created")
    return _served(view, deployment)


def _served(view: ServiceView, deployment: Deployment) -> ConditionUpdate:
    desired, status = deployment.spec.replicas, deployment.status
    if view.service.spec.replicas.min == 0:
        return ConditionUpdate(READY, "False", "Stopped", "spec.replicas.min is 0, so no pods are wanted")
    counts = f"{status.ready_replicas} of {desired} pods are ready"
    # The pods were read before the Deployment was applied, so they may be older than its status.
    found = blocker_of(view, deployment) if deployment.is_short else None
    blocker = f"; {found.message}" if found else ""
    available = condition_of(deployment.status.conditions, "Available")
    if available is None or available.status != "True" or not status.ready_replicas:
        return ConditionUpdate(READY, "False", found.reason if found else "Progressing", counts + blocker)
    if not deployment.is_updated:
        return ConditionUpdate(READY, "True", "Updating", f"{counts}, {status.updated_replicas} up to date{blocker}")
    return ConditionUpdate(READY, "True", "Serving", counts + blocker)
