"""Rules for ClusterModelCaches."""

from collections.abc import Mapping
from typing import Any

from controller.admission.catalog.port import Catalog
from controller.admission.rules.annotations import annotation_warnings
from controller.admission.rules.base_models import check_delete
from controller.admission.rules.check_cluster_model_cache import check_cache, named_groups
from controller.admission.rules.rule import AdmissionRule, Found
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import CLUSTER_MODEL_CACHE, NODE_GROUP
from shared.quantity import format_bytes, parse_quantity


async def _check_write(found: Found, catalog: Catalog, _: AdmissionSettings) -> list[str]:
    named = named_groups(found.get("spec") or {})
    warnings = check_cache(found, await catalog.group_names(named))
    groups = {name: group for name in named if (group := catalog.group(name)) is not None}
    limits = {name: group.spec.storage_limit for name, group in groups.items()}
    return [*warnings, *size_warnings(found), *capacity_warnings(found, limits)]


def size_warnings(cache: Mapping[str, Any]) -> list[str]:
    """Return a warning if `spec.modelSize` is less than what the model is known to need."""
    declared, size = _bytes((cache.get("spec") or {}).get("modelSize")), (cache.get("status") or {}).get("size") or 0
    if not 0 < declared < size:
        return []
    needs = f"the model needs {format_bytes(size)} (status.size), which nodes reserve"
    return [f"spec.modelSize is {format_bytes(declared)}, but {needs}"]


def capacity_warnings(cache: Mapping[str, Any], limits: Mapping[str, int | str]) -> list[str]:
    """Return a warning for each group whose nodes can never hold the cache's model.

    `limits` are the groups' storage limits as quantities. The size is the resolved one if the status has it, else
    `spec.modelSize`; without either, there are no warnings.
    """
    spec, resolved = cache.get("spec") or {}, (cache.get("status") or {}).get("size") or 0
    size, source = (resolved, "status.size") if resolved else (_bytes(spec.get("modelSize")), "spec.modelSize")
    return [
        f"the model needs {format_bytes(size)} ({source}), but storageLimit of {NODE_GROUP.kind} {name} allows "
        f"{format_bytes(limit)} per node, so none of its nodes will get the model; raise storageLimit, or choose "
        "another group or a smaller model"
        for name in named_groups(spec)
        if 0 < (limit := _bytes(limits.get(name))) < size
    ]


def _bytes(quantity: object) -> int:
    """Return a quantity in bytes; missing or invalid values count as 0, so that a warning cannot fail the write."""
    try:
        return parse_quantity(quantity) if isinstance(quantity, str | int) else 0
    except (ValueError, ArithmeticError):
        return 0


CLUSTER_MODEL_CACHE_RULE = AdmissionRule(CLUSTER_MODEL_CACHE, _check_write, check_delete, annotation_warnings)
