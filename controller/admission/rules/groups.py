"""Rules for ModelCacheNodeGroups."""

from controller.admission.catalog.port import Catalog
from controller.admission.review import AdmissionRequest
from controller.admission.rules.check_deletion import check_delete_group
from controller.admission.rules.check_group import check_group
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import NODE_GROUP


async def _check_write(found: Found, _catalog: Catalog, _settings: AdmissionSettings) -> list[str]:
    return check_group(found)


async def _check_delete(review: AdmissionRequest, catalog: Catalog) -> None:
    check_delete_group(review.name, catalog.cluster_model_caches())


GROUP_RULE = AdmissionRule(NODE_GROUP, _check_write, _check_delete)
