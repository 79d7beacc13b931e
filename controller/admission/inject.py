"""Turns a pod into a JSON patch: the selectors and read-only mounts for the models it asks for."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.base_models import inject_base_model
from controller.admission.catalog import Catalog, CatalogModel
from controller.admission.kserve import inject_cache
from controller.admission.named_models import inject_named_models
from controller.admission.patch import json_patch
from controller.admission.pod_annotations import (
    BASE_MODEL,
    ENABLE_CACHE,
    HUB_PREFIX,
    NAMED_MODELS,
    OURS,
    Json,
    annotations_of,
    has_keys,
    labels_of,
    read_models,
    record_claims,
    record_models,
)
from controller.admission.result import InjectionResult
from controller.admission.scheduling import selectors_of
from controller.admission.settings import AdmissionSettings
from controller.admission.volumes import check_host_paths, claim_of, pod_volumes
from controller.placement.volume_names import SnapshotVolume
from shared.names import USES_PREFIX


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
    _clear_records(draft)
    volumes = pod_volumes(pod, namespace, catalog, settings)
    results: list[InjectionResult] = []
    if BASE_MODEL in original_annotations:
        results.append(inject_base_model(draft, original_annotations[BASE_MODEL], catalog, volumes))
    if NAMED_MODELS in original_annotations:
        results += inject_named_models(draft, original_annotations[NAMED_MODELS], catalog, volumes)
    if ENABLE_CACHE in original_annotations:
        results.append(inject_cache(draft, pod, catalog, settings, volumes))
    check_host_paths(draft["spec"], [r.volume for r in results if r.volume], settings.store_root)
    models = [r.model for r in results if r.model]
    if models:
        record_models(draft, models)
    if claims := dict(_claims(results)):
        record_claims(draft, claims)
    warnings = [w for r in results for w in r.warnings]
    if any(r.selects for r in results) and draft["spec"].get("nodeName"):
        warnings.append(_BOUND)
    unread = next((r.unread for r in results if r.unread), None)
    return Injection(tuple(json_patch(dict(pod), draft)), tuple(warnings), unread)


_BOUND = (
    "spec.nodeName bypasses the scheduler: unless that node already has the model, kubelet fails the pod for good; "
    "remove nodeName to let the scheduler choose the node"
)


def _claims(results: list[InjectionResult]) -> Iterator[tuple[str, SnapshotVolume]]:
    """Yield the claims for snapshots among the volumes; a model on a claim of the user's has no revision."""
    for result in results:
        claim = claim_of(result.volume or {})
        if claim and result.model is not None and result.model[1]:
            yield claim, SnapshotVolume(*result.model)


def _clear_records(pod: Json) -> None:
    """Remove what an earlier pass, or somebody else in its name, wrote."""
    selector: dict[str, str] = pod.get("spec", {}).get("nodeSelector") or {}
    selected = {key for model in read_models(pod) for key in selectors_of(SnapshotVolume(*model))}
    _set(pod["spec"], "nodeSelector", {k: v for k, v in selector.items() if not (k in selected and v == "true")})
    metadata = pod.setdefault("metadata", {})
    _set(metadata, "labels", {k: v for k, v in labels_of(pod).items() if not k.startswith(USES_PREFIX)})
    kept = {k: v for k, v in annotations_of(pod).items() if k not in OURS and not k.startswith(HUB_PREFIX)}
    _set(metadata, "annotations", kept)


def _set(part: Json, key: str, value: dict[str, str]) -> None:
    """Replace a map; no empty map is created, and an emptied one is removed."""
    if value:
        part[key] = value
    elif part.get(key):
        del part[key]
