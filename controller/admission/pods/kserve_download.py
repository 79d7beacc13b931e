"""What a KServe pod downloads, and into which volume, from the arguments of KServe's own init container."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.pods.containers import mounts_of, path_of
from controller.admission.pods.pod_annotations import (
    INITIALIZER,
    KSERVE_LABEL,
    KSERVE_URI,
    SOURCE_URI,
    annotations_of,
    labels_of,
)
from controller.admission.pods.volumes import CACHE_VOLUME, PodVolumes

_COMPONENT = "component"  # KServe's label: predictor, transformer or explainer
_SIDE_COMPONENTS = ("transformer", "explainer")
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Download:
    """A URI, and the volume it is downloaded into, mounted at a path.

    Both are empty if an earlier admission pass replaced the download with a cache.
    """

    uri: str
    path: str = ""
    volume: str = ""


@dataclass(frozen=True, slots=True)
class UnclearDownload:
    """The pod may download something, but no cache can replace it, for this reason."""

    reason: str


def find_download(pod: Mapping[str, Any], volumes: PodVolumes) -> Download | UnclearDownload | None:
    """Return what a pod downloads; None for a custom transformer or explainer that downloads nothing."""
    spec, annotations = pod.get("spec", {}), annotations_of(pod)
    for container in spec.get("initContainers") or []:
        if container.get("name") == INITIALIZER:
            return _of_initializer(container, spec, volumes)
    announced = annotations.get(KSERVE_URI, "")
    replaced = annotations.get(SOURCE_URI) or announced
    if replaced and any(v.get("name") == CACHE_VOLUME and volumes.is_snapshot(v) for v in spec.get("volumes") or []):
        return Download(replaced)
    if announced:
        return UnclearDownload(awaits_kserve(announced))
    if is_of_kserve(pod) and labels_of(pod).get(_COMPONENT) in _SIDE_COMPONENTS:
        return None
    return UnclearDownload(
        f"the pod has neither annotation {KSERVE_URI} nor a container {INITIALIZER}, so its model is unknown"
    )


def awaits_kserve(uri: str) -> str:
    """Return why a pod that names a URI but has nothing that downloads it is left unchanged."""
    return (
        f"annotation {KSERVE_URI} is {uri}, but no container {INITIALIZER} downloads it: KServe has not added one yet, "
        "or mounts the model itself"
    )


def is_of_kserve(pod: Mapping[str, Any]) -> bool:
    """Return whether KServe created the pod for an InferenceService, so that its webhook changes it too."""
    return KSERVE_LABEL in labels_of(pod)


def _of_initializer(
    container: Mapping[str, Any], spec: Mapping[str, Any], volumes: PodVolumes
) -> Download | UnclearDownload:
    ours = {v.get("name") for v in spec.get("volumes") or [] if volumes.is_snapshot(v)}  # mounted by an earlier pass
    arguments = [str(argument) for argument in container.get("args") or []]
    if len(arguments) != _PAIR or not arguments[1].startswith("/"):
        return UnclearDownload(_not_one_pair(arguments))
    uri, path = arguments[0], path_of({"mountPath": arguments[1]})
    mount = next((m for m in mounts_of(container) if path_of(m) == path and m.get("name") not in ours), None)
    if mount is None:
        return UnclearDownload(f"container {INITIALIZER} downloads {uri} to {path}, where it mounts no volume")
    name = str(mount.get("name", ""))
    if problem := next(_volume_problems(mount, name, spec), ""):
        return UnclearDownload(f"container {INITIALIZER} downloads {uri} to {path} in volume {name!r}, {problem}")
    return Download(uri, path, name)


def _not_one_pair(arguments: list[str]) -> str:
    if len(arguments) > _PAIR and len(arguments) % _PAIR == 0:
        listed = ", ".join(f"{uri} to {path}" for uri, path in zip(arguments[::2], arguments[1::2], strict=True))
        count = len(arguments) // _PAIR
        return f"container {INITIALIZER} downloads {count} URIs, but a cache can replace only one: {listed}"
    return f"the arguments of container {INITIALIZER} are {arguments}, not one URI and one absolute path"


def _volume_problems(mount: Mapping[str, Any], name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    if mount.get("subPath") or mount.get("subPathExpr"):
        yield "which it mounts only in part"
    if not any(v.get("name") == name and "emptyDir" in v for v in spec.get("volumes") or []):
        yield "which is not the emptyDir that KServe creates, so the files may be meant to be kept"
