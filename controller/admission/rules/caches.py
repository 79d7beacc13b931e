"""Rules for ClusterModelCaches."""

from controller.admission.capacity import room_warnings
from controller.admission.catalog import Catalog
from controller.admission.rules.base_models import check_delete
from controller.admission.rules.rule import Found, Rule
from controller.admission.settings import AdmissionSettings
from controller.admission.validate import annotation_warnings, check_cache, named_groups
from shared.api.kinds import CLUSTER_MODEL_CACHE


async def _check_write(found: Found, catalog: Catalog, _: AdmissionSettings) -> list[str]:
    named = named_groups(found.get("spec") or {})
    warnings = check_cache(found, await catalog.group_names(named))
    groups = {name: group for name in named if (group := catalog.group(name)) is not None}
    limits = {name: group.spec.storage_limit for name, group in groups.items()}
    return [*warnings, *room_warnings(found, limits)]


CACHE_RULE = Rule(CLUSTER_MODEL_CACHE, _check_write, check_delete, annotation_warnings)
