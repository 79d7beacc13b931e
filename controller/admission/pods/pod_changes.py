"""Gives pods the cached models that they name, and replicas their claims: builds the JSON patch of a pod."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from controller.admission.catalog.port import Catalog
from controller.admission.pods.base_models import inject_base_model, release_base_model
from controller.admission.pods.containers import check_mounts
from controller.admission.pods.device_scheduling import concerns_scheduler, ensure_scheduled
from controller.admission.pods.kserve import inject_cache
from controller.admission.pods.named_models import inject_named_models, release_named_models
from controller.admission.pods.patch import json_patch
from controller.admission.pods.place_pod import clear_placement, ensure_gate
from controller.admission.pods.pod_annotations import (
    BASE_MODEL,
    ENABLE_CACHE,
    HUB_PREFIX,
    NAMED_MODELS,
    OURS,
    annotations_of,
    has_keys,
    labels_of,
    read_models,
    record_claims,
    record_models,
    record_placement,
)
from controller.admission.pods.replica_claims import give_claims
from controller.admission.pods.result import InjectionResult, PodChanges
from controller.admission.pods.scheduling import replace_items
from controller.admission.pods.volumes import PodVolumes, check_host_paths, claim_of, pod_volumes
from controller.admission.settings import AdmissionSettings
from controller.placement.pod_placement import MODEL_GATE
from controller.placement.volume_names import SnapshotKey
from shared.json_object import Json
from shared.names import USES_PREFIX


def pod_changes(pod: Mapping[str, Any], namespace: str, catalog: Catalog, settings: AdmissionSettings) -> PodChanges:
    """Return the changes that give a pod its models; none on a second pass. Raises AdmissionRefused.

    A pod that names a base model gets it or is rejected; a KServe pod without a matching cache keeps its own download.
    """
    to_schedule = settings.scheduler and concerns_scheduler(pod)
    if not has_keys(pod) and not to_schedule:
        return PodChanges()
    check_mounts(pod["spec"])
    draft: Json = copy.deepcopy(dict(pod))
    _clear_records(draft)
    volumes = pod_volumes(pod, namespace, catalog, settings)
    results = _inject_requested(draft, pod, catalog, settings, volumes)
    check_host_paths(draft["spec"], [r.volume for r in results if r.volume], settings.store_root)
    models = [r.model for r in results if r.model]
    if models:
        record_models(draft, models)
    if claims := dict(_claims(results)):
        record_claims(draft, claims)
    warnings = [w for r in results for w in r.warnings]
    placed = any(r.restricts_nodes for r in results)
    ensure_gate(draft["spec"], MODEL_GATE, gated=placed and volumes.placement == "gated")
    if placed and volumes.placement != "required":
        record_placement(draft, volumes.placement)
    if placed and draft["spec"].get("nodeName"):
        warnings.append(_BOUND_PREFERRED if volumes.placement == "preferred" else _BOUND)
    give_claims(draft, settings.workloads)
    if to_schedule:
        warnings += ensure_scheduled(draft)
    unread = next((r.unread for r in results if r.unread), None)
    return PodChanges(tuple(json_patch(dict(pod), draft)), tuple(warnings), unread)


def _inject_requested(
    draft: Json, pod: Mapping[str, Any], catalog: Catalog, settings: AdmissionSettings, volumes: PodVolumes
) -> list[InjectionResult]:
    """Change the draft for each annotation that asks for models; first remove what is no longer asked for."""
    asked, results = annotations_of(pod), list[InjectionResult]()
    if BASE_MODEL not in asked:
        release_base_model(draft, volumes)
    if NAMED_MODELS not in asked:
        release_named_models(draft, volumes)
    if BASE_MODEL in asked:
        results.append(inject_base_model(draft, asked[BASE_MODEL], catalog, volumes))
    if NAMED_MODELS in asked:
        results += inject_named_models(draft, asked[NAMED_MODELS], catalog, volumes)
    if ENABLE_CACHE in asked:
        results.append(inject_cache(draft, pod, catalog, settings, volumes))
    return results


_BOUND = (
    "spec.nodeName bypasses the scheduler: unless that node already has the model, kubelet fails the pod for good; "
    "remove nodeName to let the scheduler choose the node"
)
_BOUND_PREFERRED = (
    "spec.nodeName bypasses the scheduler: on a node that the model is not meant for, kubelet fails the pod for good; "
    "remove nodeName to let the scheduler choose the node"
)


def _claims(results: list[InjectionResult]) -> Iterator[tuple[str, SnapshotKey]]:
    """Yield the volumes that are claims for snapshots; a model on a user's own claim has no revision."""
    for result in results:
        claim = claim_of(result.volume or {})
        if claim and result.model is not None and result.model[1]:
            yield claim, SnapshotKey(*result.model)


def _clear_records(pod: Json) -> None:
    """Remove everything written by an earlier pass, or by anyone imitating it."""
    clear_placement(pod["spec"], (SnapshotKey(*model) for model in read_models(pod)))
    metadata = pod.setdefault("metadata", {})
    replace_items(metadata, "labels", {k: v for k, v in labels_of(pod).items() if not k.startswith(USES_PREFIX)})
    kept = {k: v for k, v in annotations_of(pod).items() if k not in OURS and not k.startswith(HUB_PREFIX)}
    replace_items(metadata, "annotations", kept)
