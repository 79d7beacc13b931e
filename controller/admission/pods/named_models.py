"""Mounts the models that a pod names, of any kind: `larder.dev/model: llama, clustermodelcache/mistral`."""

import difflib
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from controller.admission.catalog.port import Catalog, CatalogModel
from controller.admission.errors import InvalidRequest, ModelNotFound
from controller.admission.paths import DEFAULT_MODEL_PATH, KSERVE_MODEL_PATH, checked_mount_path
from controller.admission.pods.containers import MODEL_PATH, containers_of, drop_variables, take_mounts
from controller.admission.pods.hub_layout import HUB_VARIABLES, clear_hub_layout, hub_place, mount_refs, refs_volume
from controller.admission.pods.model_mounts import MountRequest, chosen_containers, mount_model
from controller.admission.pods.pod_annotations import (
    CONTAINER,
    LAYOUT,
    MOUNT_PATH,
    NAMED_MODELS,
    VARIABLE,
    annotations_of,
)
from controller.admission.pods.result import InjectionResult
from controller.admission.pods.volumes import PodVolumes
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_CACHE
from shared.json_object import Json

_KINDS: Mapping[str, str] = {
    name: definition.kind
    for definition in (BASE_MODEL, CLUSTER_BASE_MODEL, MODEL_CACHE, CLUSTER_MODEL_CACHE)
    for name in (definition.kind.lower(), *definition.short_names)
}
_CACHES = (MODEL_CACHE.kind, CLUSTER_MODEL_CACHE.kind)
_MAX_MODELS = 16
_MAX_NAMES, _LONGEST_NAME = 100, 64  # limits on the names compared with a misspelt one, which is slow
_SEVERAL_PATH = "/models"
_HUB_PATH = "/models/hub"
_NAME_HEX = 10
_VOLUME = re.compile(r"larder-[0-9a-f]{10}(-refs)?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def inject_named_models(draft: Json, text: str, catalog: Catalog, volumes: PodVolumes) -> list[InjectionResult]:
    """Change the draft so that its containers find every model that `text` names. Raises AdmissionRefused.

    Volumes that an earlier pass added for models that the pod no longer names are removed.
    """
    caches = [*catalog.model_caches(volumes.namespace), *catalog.cluster_model_caches()]
    models = [_find(name, caches, catalog, volumes.namespace) for name in references_in(text)]
    annotations = annotations_of(draft)
    containers = chosen_containers(draft, CONTAINER, _parts(annotations.get(CONTAINER, "")))
    layout = annotations.get(LAYOUT, "directory")
    if layout not in ("directory", "hub"):
        raise InvalidRequest(f"annotation {LAYOUT} is {layout!r}; write directory or hub")
    if layout == "hub":
        return _in_hub_layout(draft, models, containers, volumes)
    clear_hub_layout(draft)
    _drop_others(draft, models, volumes)
    mounted, variables = [], variables_of([model.name for model in models], annotations)
    for model, path, name in zip(models, _paths(models, annotations.get(MOUNT_PATH, "")), variables, strict=True):
        mounted.append(
            mount_model(draft, model, MountRequest(_volume_of(model), path, {name: path}, containers), volumes)
        )
    return mounted


def release_named_models(draft: Json, volumes: PodVolumes) -> None:
    """Remove what an earlier pass added to the pod; a copy of the pod still has it."""
    clear_hub_layout(draft)
    _drop_others(draft, (), volumes)


def variables_of(models: Sequence[str], annotations: Mapping[str, str]) -> list[str]:
    """Return the variable of each named model. Raises InvalidRequest if two would be the same."""
    variable = annotations.get(VARIABLE, MODEL_PATH)
    if not _VARIABLE.fullmatch(variable):
        raise InvalidRequest(f"annotation {VARIABLE} is {variable!r}, which is not the name of an environment variable")
    if len(models) == 1:
        return [variable]
    names = [f"{variable}_{re.sub('[^A-Z0-9]', '_', model.upper())}" for model in models]
    if len(set(names)) < len(names):
        raise InvalidRequest(f"annotation {NAMED_MODELS} names two models whose variables would have the same name")
    return names


def _in_hub_layout(
    draft: Json, models: Sequence[CatalogModel], containers: frozenset[str], volumes: PodVolumes
) -> list[InjectionResult]:
    cache = checked_mount_path(annotations_of(draft).get(MOUNT_PATH, "") or _HUB_PATH)
    mounted, places = [], [hub_place(model, cache) for model in models]
    clear_hub_layout(draft, {place.snapshot for place in places})
    _drop_others(draft, models, volumes)
    for model, place in zip(models, places, strict=True):
        name = _volume_of(model)
        variables = {key: cache if value is None else value for key, value in HUB_VARIABLES.items()}
        mounted.append(mount_model(draft, model, MountRequest(name, place.snapshot, variables, containers), volumes))
        mount_refs(draft, refs_volume(name, place), place, containers)
    return mounted


def references_in(text: str) -> list[str]:
    """Return the references in the annotation, each `<name>` or `<kind>/<name>`. Raises AdmissionRefused."""
    names = list(dict.fromkeys(_parts(text)))
    if not names:
        raise ModelNotFound(f"annotation {NAMED_MODELS} names no model; write <name> or <kind>/<name>")
    if len(names) > _MAX_MODELS:
        raise InvalidRequest(
            f"annotation {NAMED_MODELS} names {len(names)} models; a pod may have at most {_MAX_MODELS}"
        )
    return names


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_reference(text: str) -> tuple[str, str]:
    """Return the kind and name in `<kind>/<name>`; the kind is empty in `<name>`. Raises ModelNotFound."""
    prefix, slash, name = text.rpartition("/")
    kind = _KINDS.get(prefix.lower(), "") if slash else ""
    if slash and not kind:
        known = ", ".join(sorted(set(_KINDS.values())))
        raise ModelNotFound(f"annotation {NAMED_MODELS}: {prefix!r} is not a kind of model; write {known}")
    return kind, name


def _find(text: str, caches: Sequence[CatalogModel], catalog: Catalog, namespace: str) -> CatalogModel:
    """Return the one model that a name means. Raises ModelNotFound, with the candidates, if there is not just one."""
    kind, name = parse_reference(text)
    candidates = [model for model in _candidates(name, caches, catalog, namespace) if kind in ("", model.kind)]
    found = [model for model in candidates if model.managed]
    if not found:
        foreign = sorted({f"{model.kind}s" for model in candidates})
        raise ModelNotFound(_not_found(text, name, catalog, namespace) + _with_opt_in(foreign))
    if len({(model.id, model.uri) for model in found}) > 1:
        titles = ", ".join(f"{model.kind.lower()}/{model.name}" for model in found)
        raise ModelNotFound(
            f"annotation {NAMED_MODELS}: several models with different files are named {name!r}; write one of {titles}"
        )
    return found[0]


def _with_opt_in(foreign: Sequence[str]) -> str:
    """Return how to name models of kinds that belong to another product; empty if none of these kinds does."""
    if not foreign:
        return ""
    kinds = " and ".join(foreign)
    return f'; {kinds} belong to another product, and Larder manages only those with larder.dev/managed: "true"'


def _candidates(name: str, caches: Sequence[CatalogModel], catalog: Catalog, namespace: str) -> list[CatalogModel]:
    """Return the models of that name which the namespace sees: its own, then the cluster's, then the caches."""
    base = (catalog.base_model(namespace, name, kind) for kind in ("BaseModel", "ClusterBaseModel"))
    named = (cache for cache in caches if cache.name == name)
    return [model for model in (*base, *named) if model is not None]


def _not_found(text: str, name: str, catalog: Catalog, namespace: str) -> str:
    known = islice((one for one in catalog.names(namespace) if len(one) <= _LONGEST_NAME), _MAX_NAMES)
    near = difflib.get_close_matches(name, known, n=5) if len(name) <= _LONGEST_NAME else []
    hint = f"; similar names are {', '.join(near)}" if near else ""
    return (
        f"annotation {NAMED_MODELS}: namespace {namespace} has no model {text!r}, neither a BaseModel or ModelCache "
        f"of its own nor a ClusterBaseModel or ClusterModelCache{hint}; create it, or correct the annotation"
    )


def _volume_of(model: CatalogModel) -> str:
    return f"larder-{hashlib.sha256(model.id.encode()).hexdigest()[:_NAME_HEX]}"


def _paths(models: Sequence[CatalogModel], requested: str) -> list[str]:
    """Return where each model is mounted: several models each in their own directory."""
    if len(models) == 1:
        default = KSERVE_MODEL_PATH if models[0].kind in _CACHES else DEFAULT_MODEL_PATH
        return [checked_mount_path(requested or models[0].mount_path or default)]
    parent = checked_mount_path(requested or _SEVERAL_PATH)
    paths = [posixpath.join(parent, model.name) for model in models]
    if len(set(paths)) < len(paths):
        raise InvalidRequest(f"annotation {NAMED_MODELS} names two models of the same name; a pod can mount only one")
    return paths


def _drop_others(draft: Json, wanted: Iterable[CatalogModel], volumes: PodVolumes) -> None:
    """Remove the volumes and variables of an earlier pass for models that the pod no longer names."""
    spec, variable = draft["spec"], annotations_of(draft).get(VARIABLE, MODEL_PATH)
    kept = {name for volume in map(_volume_of, wanted) for name in (volume, f"{volume}-refs")}
    dropped = {
        name
        for volume in spec.get("volumes") or []
        if _VOLUME.fullmatch(name := str(volume.get("name", "")))
        and name not in kept
        and (volumes.is_snapshot(volume) or "downwardAPI" in volume)
    }
    if dropped:
        spec["volumes"] = [volume for volume in spec["volumes"] if volume.get("name") not in dropped]
        for container in containers_of(spec):
            drop_variables(container, variable, take_mounts(container, dropped))
