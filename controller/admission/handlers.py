"""Decides the reviews: what changes in a pod or a Job, and which objects are refused."""

from controller.admission.catalog.port import Catalog
from controller.admission.model_injector.annotations import requested_names
from controller.admission.model_injector.inject_model_claims import inject_model_claims
from controller.admission.pods.ephemeral_containers import make_store_read_only
from controller.admission.pods.pod_annotations import annotations_of
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.pods.replica_claims import add_placeholders
from controller.admission.pods.result import PodChanges
from controller.admission.review import AdmissionRequest
from controller.admission.rules.registered import RULES
from controller.admission.rules.rule import needs_check
from controller.admission.settings import AdmissionSettings
from shared.json_object import Json

_RULES = {rule.definition.kind: rule for rule in RULES}


def review_pod(review: AdmissionRequest, catalog: Catalog, settings: AdmissionSettings) -> PodChanges:
    """Return the changes to a pod, or to a pod's new ephemeral containers. Raises LarderError."""
    pod = review.created("Pod")
    if pod is not None:
        return pod_changes(pod, review.namespace, catalog, settings)
    if review.kind.kind == "Pod" and review.sub_resource == "ephemeralcontainers" and review.object is not None:
        return make_store_read_only(review.object, review.old_object or {}, settings.store_root)
    return PodChanges()


async def review_injection(review: AdmissionRequest, catalog: Catalog) -> PodChanges:
    """Return the changes that give a new pod the Models that it names. Raises LarderError."""
    if (pod := review.created("Pod")) is None or (names := requested_names(annotations_of(pod))) is None:
        return PodChanges()
    return inject_model_claims(pod, review.namespace, await catalog.injectable_models(review.namespace, names))


def review_job(review: AdmissionRequest, settings: AdmissionSettings) -> list[Json]:
    """Return the changes to a new Job. Raises LarderError."""
    job = review.created("Job")
    return add_placeholders(job, settings.workloads) if job is not None else []


async def review_object(review: AdmissionRequest, catalog: Catalog, settings: AdmissionSettings) -> list[str]:
    """Return warnings about an object whose kind has a rule. Raises LarderError if it is rejected."""
    rule = _RULES.get(review.kind.kind)
    if rule is None or review.sub_resource:
        return []
    if not catalog.manages(review.kind.kind, annotations_of(review.object or review.old_object or {})):
        return []
    if review.operation == "DELETE":
        if not (review.old_object or {}).get("metadata", {}).get("deletionTimestamp"):
            await rule.check_delete(review, catalog)
        return []
    if review.object is None:
        return []
    warnings = (
        await rule.check_write(review.object, catalog, settings)
        if needs_check(review.object, review.old_object)
        else []
    )
    return [*warnings, *rule.advise(review.object)]
