"""A pod of KServe that asks for the cache: given it in place of its download, or left as it is with the reason."""

import copy
import posixpath
from collections.abc import Mapping
from typing import Any

from controller.admission.catalog import Catalog
from controller.admission.choose import Choice, NotCached, choose_cache
from controller.admission.containers import Place, confine_mounts, containers_of, ensure_mount, mounts_of, path_of
from controller.admission.errors import MountConflict
from controller.admission.given import Given, left_alone
from controller.admission.keys import (
    ENABLE_CACHE,
    INITIALIZER,
    KSERVE_CONTAINER,
    KSERVE_URI,
    PROVISION_VOLUME,
    SOURCE_URI,
    Json,
    annotations_of,
)
from controller.admission.marks import ensure_selector, selectors_of
from controller.admission.paths import KSERVE_MODEL_PATH
from controller.admission.settings import AdmissionSettings
from controller.admission.volumes import CACHE_VOLUME, Snapshot, ensure_volume, model_volume

_ARGUMENTS_OF_ONE = 2  # the URI and where to put it


def give_cache(draft: Json, pod: Mapping[str, Any], catalog: Catalog, settings: AdmissionSettings) -> Given:
    """Change the draft so that it mounts the cache; on any obstacle leave it as it is, marked with the reason."""
    refusal = _not_asked(pod, settings)
    if refusal:
        return left_alone(draft, refusal)
    uri = source_uri(pod)
    outcome = choose_cache(uri, draft, catalog) if uri else NotCached(_NO_URI)
    if isinstance(outcome, NotCached):
        return left_alone(draft, outcome.why, outcome.unread)
    trial = copy.deepcopy(draft)
    try:
        given = _replace_download(trial, outcome, catalog, settings)
    except MountConflict as conflict:
        return left_alone(draft, str(conflict))
    if KSERVE_URI not in annotations_of(pod):
        trial["metadata"]["annotations"] = annotations_of(trial) | {SOURCE_URI: uri}
    draft.update(trial)
    return given


_NO_URI = (
    f"the pod has neither annotation {KSERVE_URI} nor a container {INITIALIZER} with one URI: its model is unknown"
)


def _not_asked(pod: Mapping[str, Any], settings: AdmissionSettings) -> str:
    value = annotations_of(pod)[ENABLE_CACHE]
    if not settings.model_cache_enabled:
        return "the model cache is switched off for this cluster (modelCache.enabled: false)"
    if value.lower() == "false":
        return f'annotation {ENABLE_CACHE} is "false"'
    return "" if value.lower() == "true" else f'annotation {ENABLE_CACHE} is {value!r}; write "true" or "false"'


def source_uri(pod: Mapping[str, Any]) -> str:
    """Return the URI that KServe would download, "" where there is none or more than one."""
    annotations = annotations_of(pod)
    arguments = _initializer(pod).get("args") or []
    if len(arguments) > _ARGUMENTS_OF_ONE:
        return ""
    first = arguments[0] if arguments else ""
    return annotations.get(KSERVE_URI) or first or annotations.get(SOURCE_URI, "")


def _initializer(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = pod.get("spec", {}).get("initContainers") or []
    return next((c for c in containers if c.get("name") == INITIALIZER), {})


def _replace_download(pod: Json, choice: Choice, catalog: Catalog, settings: AdmissionSettings) -> Given:
    spec, snapshot = pod["spec"], Snapshot(choice.cache.id, choice.cache.serving_revision)
    volume = model_volume(CACHE_VOLUME, snapshot, settings.store_root)
    _drop_initializer(spec)
    _drop_provision_volume(spec)
    ensure_volume(spec, volume, settings.store_root)
    _mount_everywhere(spec, choice)
    ensure_selector(spec, selectors_of(snapshot))
    group = catalog.group(choice.group) if choice.confined else None
    if group is not None and group.spec.node_selector:
        ensure_selector(spec, group.spec.node_selector)
    return Given((snapshot.id, snapshot.revision), volume, selects=True)


def _drop_initializer(spec: Json) -> None:
    kept = [c for c in spec.get("initContainers") or [] if c.get("name") != INITIALIZER]
    if kept:
        spec["initContainers"] = kept
    else:
        spec.pop("initContainers", None)


def _drop_provision_volume(spec: Json) -> None:
    volumes: list[Json] = spec.get("volumes") or []
    found = next((v for v in volumes if v.get("name") == PROVISION_VOLUME), None)
    if found is not None and "emptyDir" not in found:
        raise MountConflict(f"volume {PROVISION_VOLUME} is not the emptyDir that KServe makes")
    spec["volumes"] = [v for v in volumes if v is not found]


def _mount_everywhere(spec: Json, choice: Choice) -> None:
    """Mount the cache wherever the download was mounted, at least in KServe's container."""
    at_least = _place(KSERVE_MODEL_PATH, choice)
    containers = list(containers_of(spec))
    for container in containers:
        for path in _take_provision_mounts(container):
            ensure_mount(container, _place(path, choice))
    ours = (path_of(m) for c in containers for m in mounts_of(c) if m.get("name") == CACHE_VOLUME)
    if at_least.path not in ours:
        ensure_mount(_serving(spec), at_least)
    for container in containers:
        confine_mounts(container, CACHE_VOLUME, choice.sub_path)


def _place(path: str, choice: Choice) -> Place:
    """Return the mount for a download's path: a single file is in that directory, as KServe would put it."""
    name = posixpath.basename(choice.sub_path) if choice.is_file else ""
    return Place(CACHE_VOLUME, posixpath.join(path, name) if name else path, choice.sub_path)


def _take_provision_mounts(container: Json) -> list[str]:
    """Take the download's mounts out of a container and return their paths."""
    taken = [m for m in mounts_of(container) if m.get("name") == PROVISION_VOLUME]
    if any(m.get("subPath") or m.get("subPathExpr") for m in taken):
        raise MountConflict(f"container {container.get('name')!r} mounts only a part of {PROVISION_VOLUME}")
    if taken:
        container["volumeMounts"] = [m for m in mounts_of(container) if m not in taken]
    return [path_of(m) for m in taken]


def _serving(spec: Json) -> Json:
    containers: list[Json] = spec["containers"]
    return next((c for c in containers if c.get("name") == KSERVE_CONTAINER), containers[0])
