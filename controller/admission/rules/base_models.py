"""Rules for BaseModels and ClusterBaseModels."""

from controller.admission.catalog.port import Catalog
from controller.admission.review import AdmissionRequest
from controller.admission.rules.annotations import annotation_warnings
from controller.admission.rules.check_base_model import check_base_model
from controller.admission.rules.check_deletion import check_delete_model
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from controller.placement.allowed_sources import EVERY_SOURCE
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL


async def _check_namespaced(found: Found, _: Catalog, settings: AdmissionSettings) -> list[str]:
    return check_base_model(found, settings.allowed, cluster_scoped=False)


async def _check_cluster_scoped(found: Found, _catalog: Catalog, _settings: AdmissionSettings) -> list[str]:
    return check_base_model(found, EVERY_SOURCE, cluster_scoped=True)


async def check_delete(review: AdmissionRequest, catalog: Catalog) -> None:
    """Reject the deletion of a model in use."""
    where = f"{review.namespace}/{review.name}" if review.namespace else review.name
    services = await catalog.services_of(review.kind.kind, review.namespace, review.name)
    users = catalog.users_of(review.kind.kind, review.namespace, review.name)
    check_delete_model(f"{review.kind.kind} {where}", users, services)


BASE_MODEL_RULE = AdmissionRule(BASE_MODEL, _check_namespaced, check_delete, annotation_warnings)
CLUSTER_BASE_MODEL_RULE = AdmissionRule(CLUSTER_BASE_MODEL, _check_cluster_scoped, check_delete, annotation_warnings)
