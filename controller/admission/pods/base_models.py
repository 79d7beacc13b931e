"""Mutates a pod that names a base model, or rejects it with a remedy."""

from controller.admission.catalog.port import Catalog, CatalogModel
from controller.admission.errors import ModelNotFound
from controller.admission.paths import DEFAULT_MODEL_PATH, checked_mount_path
from controller.admission.pods.containers import MODEL_PATH, containers_of, drop_variables, mounts_of, path_of
from controller.admission.pods.model_mounts import MountRequest, chosen_containers, mount_model
from controller.admission.pods.pod_annotations import BASE_MODEL, MODEL_CONTAINER, MODEL_KIND, annotations_of, labels_of
from controller.admission.pods.result import InjectionResult, left_alone
from controller.admission.pods.volumes import BASE_MODEL_VOLUME, PodVolumes
from controller.placement.demand_of_kind import FOREIGN
from shared.json_object import Json

_OME_LABEL = "base-model-name"  # on pods that OME creates for a model; they mount it through a volume of their own


def inject_base_model(draft: Json, name: str, catalog: Catalog, volumes: PodVolumes) -> InjectionResult:
    """Change the draft so that its containers find the model. Raises AdmissionRefused if they cannot get it."""
    kind = annotations_of(draft).get(MODEL_KIND, "")
    namespace = volumes.namespace
    model = catalog.base_model(namespace, name, kind)
    if model is None:
        raise ModelNotFound(_not_found(namespace, name, kind))
    if not model.managed:
        release_base_model(draft, volumes)
        return InjectionResult()
    if reason := _provided_by_others(draft, model):
        release_base_model(draft, volumes)
        return left_alone(draft, reason)
    path, chosen = _path_of(model), annotations_of(draft).get(MODEL_CONTAINER, "")
    containers = chosen_containers(draft, MODEL_CONTAINER, [chosen] if chosen else [])
    return mount_model(draft, model, MountRequest(BASE_MODEL_VOLUME, path, {MODEL_PATH: path}, containers), volumes)


def release_base_model(draft: Json, volumes: PodVolumes) -> None:
    """Remove what an earlier pass added to the pod; a copy of the pod still has it."""
    paths = volumes.drop(draft["spec"], BASE_MODEL_VOLUME)
    for container in containers_of(draft["spec"]):
        drop_variables(container, MODEL_PATH, paths)


def _provided_by_others(draft: Json, model: CatalogModel) -> str:
    """Return who else provides the model to the pod, or an empty string."""
    if model.uri.startswith(FOREIGN):
        return f"{model.title} has the URI {model.uri}, so its vendor provides the files"
    path = _path_of(model)
    volume = _volume_of_ome(draft, model.name, path)
    return f"OME created this pod for {model.title} and mounts volume {volume!r} at {path}" if volume else ""


def _volume_of_ome(pod: Json, model: str, path: str) -> str:
    """Return the volume through which OME mounts this model at a path; empty for a pod that OME did not create for it.

    OME's pods have its label, or a hostPath named after the model that is at the same path on the node.
    """
    spec = pod.get("spec", {})
    hosted = {v.get("name", ""): (v.get("hostPath") or {}).get("path", "") for v in spec.get("volumes") or []}
    labelled = labels_of(pod).get(_OME_LABEL) == model
    mounted = (m.get("name", "") for c in containers_of(spec) for m in mounts_of(c) if path_of(m) == path)
    made = (n for n in mounted if n != BASE_MODEL_VOLUME and (labelled or (n == model and hosted.get(n) == path)))
    return next(made, "")


def _path_of(model: CatalogModel) -> str:
    return checked_mount_path(model.mount_path or DEFAULT_MODEL_PATH)


def _not_found(namespace: str, name: str, kind: str) -> str:
    if kind:
        return (
            f"no {kind} {name!r} is visible from namespace {namespace}, and annotation {MODEL_KIND} requires that "
            f"kind; create it, or correct annotation {BASE_MODEL} or {MODEL_KIND}"
        )
    if not name or "/" in name:
        return f"annotation {BASE_MODEL} is {name!r}; write only the name of a BaseModel in namespace {namespace}"
    return (
        f"there is no BaseModel {name!r} in namespace {namespace} and no ClusterBaseModel of that name (BaseModels in "
        f"other namespaces cannot be used); create it, or correct annotation {BASE_MODEL}"
    )
