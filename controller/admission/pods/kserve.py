"""Replaces the download of a KServe pod that asks for the cache, or leaves the pod unchanged with a reason."""

import copy
import posixpath
from collections.abc import Mapping
from typing import Any

from controller.admission.catalog.port import Catalog
from controller.admission.errors import ModelNotReady, MountConflict
from controller.admission.paths import KSERVE_MODEL_PATH, is_within
from controller.admission.pods.choose_cache import Choice, NotCached, choose_cache
from controller.admission.pods.containers import (
    MountPlace,
    confine_mounts,
    containers_of,
    ensure_mount,
    mounts_of,
    path_of,
    take_mounts,
)
from controller.admission.pods.kserve_download import (
    Download,
    UnclearDownload,
    awaits_kserve,
    find_download,
    is_of_kserve,
)
from controller.admission.pods.place_pod import place_pod
from controller.admission.pods.pod_annotations import (
    ENABLE_CACHE,
    INITIALIZER,
    KSERVE_CONTAINER,
    KSERVE_URI,
    READ_ONLY,
    SOURCE_URI,
    annotations_of,
)
from controller.admission.pods.result import InjectionResult, left_alone
from controller.admission.pods.volumes import CACHE_VOLUME, PodVolumes
from controller.admission.settings import AdmissionSettings
from shared.json_object import Json


def inject_cache(
    draft: Json, pod: Mapping[str, Any], catalog: Catalog, settings: AdmissionSettings, volumes: PodVolumes
) -> InjectionResult:
    """Change the draft so that it mounts the cache; on any obstacle, leave it unchanged and annotate the reason."""
    match find_download(pod, volumes):
        case None:
            return InjectionResult()
        case UnclearDownload() as unclear:
            return left_alone(draft, _ineligible_reason(draft, settings) or unclear.reason)
        case Download() as download:
            outcome = _try_cache(draft, download, catalog, settings, volumes)
            if isinstance(outcome, NotCached):
                return _keep_download(draft, download, outcome, settings, volumes)
            return outcome


def _try_cache(
    draft: Json, download: Download, catalog: Catalog, settings: AdmissionSettings, volumes: PodVolumes
) -> InjectionResult | NotCached:
    if refusal := _ineligible_reason(draft, settings):
        return NotCached(refusal)
    waits = volumes.placement != "required"
    choice = choose_cache(download.uri, draft, catalog, volumes.namespace, waits=waits)
    if isinstance(choice, NotCached):
        return choice
    trial = copy.deepcopy(draft)
    try:
        result = _replace_download(trial, download, choice, volumes)
    except (MountConflict, ModelNotReady) as refusal:
        return NotCached(str(refusal))
    draft.update(trial)
    return result


def _ineligible_reason(pod: Mapping[str, Any], settings: AdmissionSettings) -> str:
    value = annotations_of(pod)[ENABLE_CACHE]
    if not settings.model_cache_enabled:
        return "the model cache is disabled in this cluster (modelCache.enabled: false)"
    if value.lower() == "false":
        return f'annotation {ENABLE_CACHE} is "false"'
    return "" if value.lower() == "true" else f'annotation {ENABLE_CACHE} is {value!r}; write "true" or "false"'


def _keep_download(
    draft: Json, download: Download, outcome: NotCached, settings: AdmissionSettings, volumes: PodVolumes
) -> InjectionResult:
    """Leave the pod its download; if an earlier pass replaced it, make KServe's webhook add it again."""
    paths = volumes.drop(draft["spec"], CACHE_VOLUME)
    if download.volume:
        return left_alone(draft, outcome.reason, outcome.unread)
    if not is_of_kserve(draft) or not all(is_within(path, KSERVE_MODEL_PATH) for path in paths):
        raise ModelNotReady(
            f"{outcome.reason}; a cache replaced the pod's download of {download.uri} earlier and is mounted at "
            f"{', '.join(sorted(set(paths))) or 'no path'} as volume {CACHE_VOLUME!r}; the download cannot be "
            "restored, so create the pod from its InferenceService or Deployment, not from a copy of an admitted pod"
        )
    draft["metadata"]["annotations"] = annotations_of(draft) | {KSERVE_URI: download.uri}
    return left_alone(draft, _ineligible_reason(draft, settings) or awaits_kserve(download.uri))


def _replace_download(pod: Json, download: Download, choice: Choice, volumes: PodVolumes) -> InjectionResult:
    """Replace the download with the cache, and remove whatever would make KServe's webhook add the download again."""
    spec, cache = pod["spec"], choice.cache
    volume = volumes.of_model(CACHE_VOLUME, cache)
    if download.volume:
        volumes.drop(spec, CACHE_VOLUME)
        _drop_initializer(spec)
        spec["volumes"] = [v for v in spec.get("volumes") or [] if v.get("name") != download.volume]
    volumes.ensure(spec, volume)
    _mount_everywhere(spec, download, choice)
    if not cache.claim:
        place_pod(spec, cache, volumes.placement, volumes.catalog, choice.group)
    kept = {key: value for key, value in annotations_of(pod).items() if key != KSERVE_URI}
    pod["metadata"]["annotations"] = kept | {SOURCE_URI: download.uri}
    model = cache.id, "" if cache.claim else cache.serving_revision
    return InjectionResult(model, volume, restricts_nodes=not cache.claim, warnings=_warnings(pod))


def _warnings(pod: Json) -> tuple[str, ...]:
    if annotations_of(pod).get(READ_ONLY, "").lower() != "false":
        return ()
    return (_READ_ONLY_ANYWAY,)


_READ_ONLY_ANYWAY = (
    f'annotation {READ_ONLY} is "false", but a cached model is shared and always mounted read-only; '
    f'to give the server a writable copy, set {ENABLE_CACHE}: "false"'
)


def _drop_initializer(spec: Json) -> None:
    kept = [c for c in spec.get("initContainers") or [] if c.get("name") != INITIALIZER]
    if kept:
        spec["initContainers"] = kept
    else:
        spec.pop("initContainers", None)


def _mount_everywhere(spec: Json, download: Download, choice: Choice) -> None:
    """Mount the cache wherever the download was mounted; if no container mounted it, in KServe's container."""
    containers = list(containers_of(spec))
    _check_whole(containers, download.volume)
    for container in containers:
        for path in take_mounts(container, {download.volume}):
            ensure_mount(container, _place(path, choice))
    if download.path and not any(m.get("name") == CACHE_VOLUME for c in spec["containers"] for m in mounts_of(c)):
        ensure_mount(_serving_container(spec), _place(download.path, choice))
    for container in containers:
        confine_mounts(container, CACHE_VOLUME, choice.volume_path)


def _place(path: str, choice: Choice) -> MountPlace:
    """Return the mount for a download's path: a single file is mounted inside it, where KServe would put it."""
    name = posixpath.basename(choice.sub_path) if choice.is_file else ""
    return MountPlace(CACHE_VOLUME, posixpath.join(path, name) if name else path, choice.volume_path)


def _check_whole(containers: list[Json], volume: str) -> None:
    """Raise MountConflict if a container mounts only a part of the download."""
    for container in containers:
        for mount in mounts_of(container):
            if mount.get("name") == volume and (mount.get("subPath") or mount.get("subPathExpr")):
                raise MountConflict(
                    f"container {container.get('name')!r} mounts only a part of volume {volume!r}, at "
                    f"{path_of(mount)}; mount the whole volume so that a cache can replace it"
                )


def _serving_container(spec: Json) -> Json:
    containers: list[Json] = spec["containers"]
    return next((c for c in containers if c.get("name") == KSERVE_CONTAINER), containers[0])
