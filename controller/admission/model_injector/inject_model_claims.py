"""Adds the claims of Models to a pod: volumes, mounts, variables and a label. No input or output."""

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from controller.admission.errors import InvalidRequest, ModelNotFound, ModelNotReady, MountConflict
from controller.admission.injectable_model import READY, InjectableModel
from controller.admission.model_injector.annotations import (
    CONTAINER,
    INJECT,
    INJECT_ENV,
    MOUNT_PATH,
    ModelRequest,
    quoted,
    read_request,
    requested_names,
    unknown_annotation_warnings,
)
from controller.admission.model_injector.variables import all_variables, ensure_variables
from controller.admission.paths import is_within
from controller.admission.pods.containers import (
    SIDECARS,
    MountPlace,
    check_mounts,
    containers_of,
    ensure_mount,
    mounts_of,
    path_of,
)
from controller.admission.pods.model_mounts import chosen_containers
from controller.admission.pods.named_models import parse_reference, references_in, variables_of
from controller.admission.pods.patch import json_patch
from controller.admission.pods.pod_annotations import NAMED_MODELS, VARIABLE, annotations_of, labels_of
from controller.admission.pods.result import PodChanges
from shared.json_object import Json
from shared.names import INJECTED_LABEL

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_LONGEST_VOLUME, _HASH_HEX = 63, 8


def inject_model_claims(pod: Mapping[str, Any], namespace: str, models: Mapping[str, InjectableModel]) -> PodChanges:
    """Return the changes that give a pod the Models that it names; none on a second pass. Raises AdmissionRefused.

    `models` are those of the pod's namespace that exist, by name.
    """
    annotations = annotations_of(pod)
    names = requested_names(annotations)
    if names is None:
        return PodChanges()
    check_mounts(pod["spec"])
    wanted = [_usable(name, models.get(name), namespace) for name in names]
    request = read_request(names, annotations)
    variables = all_variables(wanted, request.paths) if request.variables else {}
    _check_named_models(annotations, variables)
    draft: Json = copy.deepcopy(dict(pod))
    for model in wanted:
        _mount(draft, model, request)
    for container in _chosen(draft, request):
        ensure_variables(container, variables)
    draft.setdefault("metadata", {})["labels"] = labels_of(draft) | {INJECTED_LABEL: "true"}
    return PodChanges(tuple(json_patch(dict(pod), draft)), tuple(unknown_annotation_warnings(annotations)))


def volume_name(model: str) -> str:
    """Return the name of a Model's volume: `model-<name>`, with a hash if that is not a valid volume name."""
    name = f"model-{model}"
    if _LABEL.fullmatch(name):
        return name
    digest = hashlib.sha256(model.encode()).hexdigest()[:_HASH_HEX]
    return f"{name.replace('.', '-')[: _LONGEST_VOLUME - _HASH_HEX - 1]}-{digest}"


def _usable(name: str, model: InjectableModel | None, namespace: str) -> InjectableModel:
    if model is None:
        raise ModelNotFound(
            f"model {quoted(name)} not found: namespace {namespace} has no Model of that name; create it, or correct "
            f"annotation {INJECT}"
        )
    if model.deleting:
        raise ModelNotReady(
            f'model "{name}" is not ready (phase: {model.phase}): it is being deleted; recreate it once it is gone'
        )
    if model.phase != READY:
        why = f": {model.message.rstrip('.')}" if model.message else ""
        raise ModelNotReady(
            f'model "{name}" is not ready (phase: {model.phase or "Pending"}){why}; `kubectl get mdl {name} -n '
            f"{namespace}` shows its status; a Deployment or Job retries on its own"
        )
    return model


def _check_named_models(annotations: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Raise InvalidRequest if the models that `larder.dev/model` names need one of these variables."""
    if NAMED_MODELS not in annotations or not variables:
        return
    others = [parse_reference(text)[1] for text in references_in(annotations[NAMED_MODELS])]
    for name, variable in zip(others, variables_of(others, annotations), strict=True):
        if variable in variables:
            raise InvalidRequest(
                f'annotations {INJECT} and {NAMED_MODELS} ("{name}") both need the variable {variable}; choose another '
                f'name with {VARIABLE}, or set {INJECT_ENV}: "false"'
            )


def _chosen(pod: Json, request: ModelRequest) -> list[Json]:
    """Return the containers that get the Models: those named, else the first that is not a well-known sidecar.

    Raises MountConflict if the pod lacks one of them.
    """
    if request.containers:
        names = chosen_containers(pod, CONTAINER, request.containers)
        return [container for container in containers_of(pod["spec"]) if container.get("name") in names]
    containers: Sequence[Json] = pod["spec"].get("containers") or []
    return [c for c in containers if c.get("name") not in SIDECARS][:1] or list(containers[:1])


def _mount(pod: Json, model: InjectableModel, request: ModelRequest) -> None:
    place = MountPlace(volume_name(model.name), request.paths[model.name], model.sub_path, request.read_only)
    _ensure_volume(pod["spec"], _volume(place.volume, model.claim, read_only=request.read_only), model.name)
    for container in _chosen(pod, request):
        _check_parents(container, place, model.name)
        ensure_mount(container, place, f'model "{model.name}"', _OTHER_PATH)


_OTHER_PATH = f"move that mount, or choose another path with annotation {MOUNT_PATH}"


def _check_parents(container: Json, place: MountPlace, model: str) -> None:
    """Raise MountConflict if the place is in a read-only mount, where the runtime cannot create its directory."""
    for mount in mounts_of(container):
        parent = path_of(mount)
        if mount.get("readOnly") and parent != place.path and is_within(place.path, parent):
            raise MountConflict(
                f"container {container.get('name')!r} mounts volume {mount.get('name')!r} read-only at {parent}, so "
                f'model "{model}" cannot be mounted below it at {place.path}; {_OTHER_PATH}'
            )


def _ensure_volume(spec: Json, wanted: Json, model: str) -> None:
    volumes: list[Json] = spec.get("volumes") or []
    found = next((v for v in volumes if v.get("name") == wanted["name"]), None)
    if found is None:
        spec["volumes"] = [*volumes, wanted]
    elif found != wanted:
        raise MountConflict(
            f'the pod already has a volume "{wanted["name"]}", which is the name of the volume of model "{model}"; '
            f"rename it, or remove it and let annotation {INJECT} add it"
        )


def _volume(name: str, claim: str, *, read_only: bool) -> Json:
    source: Json = {"claimName": claim}
    return {"name": name, "persistentVolumeClaim": source | ({"readOnly": True} if read_only else {})}
