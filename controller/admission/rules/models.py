"""Rules for Models."""

from controller.admission.catalog.port import Catalog
from controller.admission.review import AdmissionRequest
from controller.admission.rules.check_deletion import check_delete_model
from controller.admission.rules.check_model import check_model, model_warnings
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import MODEL


async def _check_write(found: Found, catalog: Catalog, settings: AdmissionSettings) -> list[str]:
    check_model(found, settings.allowed)
    storage_class = str(found["spec"]["storage"]["storageClass"])
    return model_warnings(found, known_class=await catalog.has_storage_class(storage_class))


async def _check_delete(review: AdmissionRequest, catalog: Catalog) -> None:
    """Reject the deletion of a Model whose claim pods mount: pods that replace them would be refused."""
    claim = str(((review.old_object or {}).get("status") or {}).get("pvcName") or "")
    users = catalog.users_of_claim(review.namespace, claim) if claim else ()
    check_delete_model(f"Model {review.namespace}/{review.name}", users)


MODEL_RULE = AdmissionRule(MODEL, _check_write, _check_delete)
