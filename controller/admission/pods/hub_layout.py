"""The layout of the Hugging Face cache, made of mounts alone: no file is copied.

    <HF_HUB_CACHE>/models--org--repo/snapshots/<commit>/   the snapshot's claim
    <HF_HUB_CACHE>/models--org--repo/refs/main             the commit, from an annotation through the downward API

https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import InvalidRequest, MountConflict
from controller.admission.paths import is_within
from controller.admission.pods.containers import MountPlace, containers_of, ensure_mount, mounts_of, path_of
from controller.admission.pods.model_mounts import source_of
from controller.admission.pods.pod_annotations import HUB_PREFIX, annotations_of
from shared.json_object import Json
from shared.uri.model_uri import HfUri

# None stands for the directory of the cache.
_CACHE = "HF_HUB_CACHE"
HUB_VARIABLES: Mapping[str, str | None] = {_CACHE: None, "HF_HUB_OFFLINE": "1"}
_REFS = re.compile(r"larder-[0-9a-f]{10}-refs", re.ASCII)
_MAIN = "main"


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where a hub model is in the cache, and the references that point to its commit."""

    snapshot: str
    refs: str
    commit: str
    names: tuple[str, ...]


def hub_place(model: CatalogModel, cache: str) -> HubPlace:
    """Return the place of a model below the cache's directory. Raises InvalidRequest if its URI is not hf://."""
    uri = source_of(model)
    if not isinstance(uri, HfUri):
        raise InvalidRequest(f"{model.title} is at {model.uri}; layout hub requires a model with an hf:// URI")
    repository = posixpath.join(cache, uri.cache_directory)
    names = tuple(name for name in dict.fromkeys((_MAIN, uri.revision)) if name != model.serving_revision)
    snapshot = posixpath.join(repository, "snapshots", model.serving_revision)
    return HubPlace(snapshot, posixpath.join(repository, "refs"), model.serving_revision, names)


def refs_volume(name: str, place: HubPlace) -> Json:
    """Return the volume with the references of a model, whose commit is in an annotation of the pod."""
    field = {"fieldPath": f"metadata.annotations['{HUB_PREFIX}{name}']"}
    return {
        "name": f"{name}-refs",
        "downwardAPI": {"items": [{"path": name_of_ref, "fieldRef": field} for name_of_ref in place.names]},
    }


def mount_refs(draft: Json, volume: Json, place: HubPlace, containers: Collection[str]) -> None:
    """Add the volume of references, its mounts, and the annotation that it reads."""
    spec, name = draft["spec"], volume["name"]
    found = [v for v in spec.get("volumes") or [] if v.get("name") == name]
    if found and "downwardAPI" not in found[0]:
        raise MountConflict(
            f"the pod already has a volume {name!r}, which Larder needs for the model's references; rename it"
        )
    if not found or _refs_of(found[0]) != _refs_of(volume):
        spec["volumes"] = [*(v for v in spec.get("volumes") or [] if v.get("name") != name), volume]
    for container in containers_of(spec):
        if container.get("name") in containers:
            ensure_mount(container, MountPlace(name, place.refs))
    key = f"{HUB_PREFIX}{name.removesuffix('-refs')}"
    draft["metadata"]["annotations"] = annotations_of(draft) | {key: place.commit}


def clear_hub_layout(draft: Json, wanted: Collection[str] = ()) -> None:
    """Remove everything that an earlier pass wrote for this layout, except the snapshots at the `wanted` paths.

    A copy of a pod still has it. A variable is ours if the container mounts our references below its value.
    """
    spec, repositories = draft["spec"], {posixpath.dirname(posixpath.dirname(path)) for path in wanted}
    volumes = spec.get("volumes") or []
    refs = {name for v in volumes if "downwardAPI" in v and _REFS.fullmatch(name := str(v.get("name")))}
    for container in containers_of(spec):
        found = {m["name"].removesuffix("-refs"): path_of(m) for m in mounts_of(container) if m.get("name") in refs}
        places = {volume: posixpath.dirname(path) for volume, path in found.items()}
        kept = [m for m in mounts_of(container) if not _is_stale(m, refs, places, repositories | set(wanted))]
        if len(kept) < len(mounts_of(container)):
            container["volumeMounts"] = kept
        caches = {posixpath.dirname(place) for place in places.values()} - set(map(posixpath.dirname, repositories))
        if any(v.get("name") == _CACHE and v.get("value") in caches for v in container.get("env") or []):
            container["env"] = [v for v in container["env"] if v.get("name") not in HUB_VARIABLES]
    used = {m.get("name") for container in containers_of(spec) for m in mounts_of(container)}
    if refs - used:
        spec["volumes"] = [v for v in volumes if v.get("name") not in refs - used]


def _is_stale(mount: Json, refs: Collection[str], places: Mapping[str, str], wanted: Collection[str]) -> bool:
    """Return whether a mount is an unwanted one of this layout: references, or a snapshot next to them."""
    name, path = mount.get("name", ""), path_of(mount)
    if name in refs:
        return posixpath.dirname(path) not in wanted
    return name in places and is_within(path, places[name]) and path not in wanted


def _refs_of(volume: Json) -> list[tuple[str, str]]:
    """Return the names of references and the fields that they read; the API server adds defaults to the rest."""
    items = volume["downwardAPI"].get("items") or []
    return [(item.get("path", ""), (item.get("fieldRef") or {}).get("fieldPath", "")) for item in items]
