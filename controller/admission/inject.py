"""Turns a pod into a JSON patch: the selectors and read-only mounts for the models it asks for."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.base_models import give_base_model
from controller.admission.catalog import Catalog, CatalogModel
from controller.admission.kserve import give_cache
from controller.admission.marks import clear_marks, mark_given
from controller.admission.patch import json_patch
from controller.admission.pod_annotations import BASE_MODEL, ENABLE_CACHE, Json, annotations_of, has_keys
from controller.admission.result import InjectionResult
from controller.admission.settings import AdmissionSettings
from controller.admission.volumes import check_host_paths


@dataclass(frozen=True, slots=True)
class Injection:
    """What to change, the warnings for the pod's creator, and the cache whose files must be read to decide better."""

    patch: tuple[Json, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: CatalogModel | None = None


def inject(pod: Mapping[str, Any], namespace: str, catalog: Catalog, settings: AdmissionSettings) -> Injection:
    """Return the changes that give a pod its models; none on a second pass. Raises AdmissionRefused.

    A pod that names a base model gets it or is rejected; a KServe pod without a matching cache keeps its own download.
    """
    if not has_keys(pod):
        return Injection()
    draft: Json = copy.deepcopy(dict(pod))
    original_annotations = annotations_of(pod)
    clear_marks(draft)
    given: list[InjectionResult] = []
    if BASE_MODEL in original_annotations:
        given.append(give_base_model(draft, namespace, original_annotations[BASE_MODEL], catalog, settings))
    if ENABLE_CACHE in original_annotations:
        given.append(give_cache(draft, pod, catalog, settings))
    check_host_paths(draft["spec"], [g.volume for g in given if g.volume], settings.store_root)
    models = [g.model for g in given if g.model]
    if models:
        mark_given(draft, models)
    warnings = [w for g in given for w in g.warnings]
    if any(g.selects for g in given) and draft["spec"].get("nodeName"):
        warnings.append(_BOUND)
    unread = next((g.unread for g in given if g.unread), None)
    return Injection(tuple(json_patch(dict(pod), draft)), tuple(warnings), unread)


_BOUND = (
    "spec.nodeName bypasses the scheduler: kubelet fails the pod for good unless that node already has the model; "
    "remove nodeName to have it placed"
)
