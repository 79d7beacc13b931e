"""Rules for ModelCaches."""

from controller.admission.catalog.port import Catalog
from controller.admission.review import AdmissionRequest
from controller.admission.rules.check_deletion import check_delete_model
from controller.admission.rules.check_model_cache import check_model_cache
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import MODEL_CACHE


async def _check_write(found: Found, _: Catalog, settings: AdmissionSettings) -> list[str]:
    namespace = str((found.get("metadata") or {}).get("namespace") or "")
    return check_model_cache(found, namespace, settings.allowed, settings.csi_drivers)


async def _check_delete(review: AdmissionRequest, catalog: Catalog) -> None:
    """Reject the deletion of a cache whose claim pods mount, or that services name."""
    caches = catalog.model_caches(review.namespace)
    claim = next((cache.claim for cache in caches if cache.name == review.name), "")
    users = catalog.users_of_claim(review.namespace, claim) if claim else ()
    services = await catalog.services_of(MODEL_CACHE.kind, review.namespace, review.name) if claim else ()
    check_delete_model(f"ModelCache {review.namespace}/{review.name}", users, services)


MODEL_CACHE_RULE = AdmissionRule(MODEL_CACHE, _check_write, _check_delete)
