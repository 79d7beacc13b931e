"""Mounts and environment variables in a pod's containers."""

import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.errors import InvalidRequest, MountConflict
from controller.admission.paths import is_within
from shared.json_object import Json

MODEL_PATH = "MODEL_PATH"
_MAX_MOUNTS = 1500  # in all containers: they are compared with one another and with the place of each model
# Injected by meshes and platforms: they serve no model, and their owners expect them unchanged.
SIDECARS = frozenset(
    ("istio-proxy", "istio-init", "istio-validation", "linkerd-proxy", "linkerd-init", "queue-proxy", "vault-agent")
)


@dataclass(frozen=True, slots=True)
class MountPlace:
    """Where our volume goes in a container."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = True

    def mount(self) -> Json:
        """Return the volumeMount."""
        mount: Json = {"name": self.volume, "mountPath": self.path}
        return (
            mount
            | ({"readOnly": True} if self.read_only else {})
            | ({"subPath": self.sub_path} if self.sub_path else {})
        )


def containers_of(spec: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the init containers and the containers, in start order."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def check_mounts(spec: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if a pod has too many mounts to compare them with the mounts of models quickly."""
    count = sum(len(mounts_of(container)) for container in containers_of(spec))
    if count > _MAX_MOUNTS:
        raise InvalidRequest(f"the pod has {count} volumeMounts; a pod with models may have at most {_MAX_MOUNTS}")


def mounts_of(container: Mapping[str, Any]) -> list[Json]:
    """Return the container's mounts."""
    return container.get("volumeMounts") or []


def path_of(mount: Mapping[str, Any]) -> str:
    """Return the path of a mount in normalised form."""
    return posixpath.normpath(str(mount.get("mountPath", "")))


_OTHER_PATH = (
    "move that mount, or give the model another path (spec.storage.path of a BaseModel, mountPath of KServe's "
    "storageUris)"
)


def ensure_mount(container: Json, place: MountPlace, model: str = "the model", remedy: str = _OTHER_PATH) -> None:
    """Mount the volume at its place. Raises MountConflict if something else is mounted there or below.

    `model` and `remedy` are for the message of the refusal.
    """
    for mount in mounts_of(container):
        if mount.get("name") != place.volume and is_within(path_of(mount), place.path):
            how = "mounted read-only" if place.read_only else "mounted"
            raise MountConflict(
                f"container {container.get('name')!r} mounts volume {mount.get('name')!r} at {mount.get('mountPath')}, "
                f"where {model} is {how} ({place.path}); {remedy}"
            )
    if not any(m.get("name") == place.volume and path_of(m) == place.path for m in mounts_of(container)):
        container["volumeMounts"] = [*mounts_of(container), place.mount()]


def take_mounts(container: Json, volumes: Collection[str]) -> list[str]:
    """Remove the mounts of these volumes from a container and return their paths."""
    taken = [path_of(m) for m in mounts_of(container) if m.get("name") in volumes]
    if taken:
        container["volumeMounts"] = [m for m in mounts_of(container) if m.get("name") not in volumes]
    return taken


def drop_variables(container: Json, variable: str, paths: Collection[str]) -> None:
    """Remove `variable`, and those named `variable` plus a suffix, if they point at one of these removed mounts."""
    known, gone = container.get("env") or [], frozenset(paths)
    kept = [v for v in known if v.get("value") not in gone or not f"{v.get('name')}_".startswith(f"{variable}_")]
    if len(kept) < len(known):
        container["env"] = kept


def confine_mounts(container: Json, volume: str, sub_path: str) -> None:
    """Rewrite every mount of our volume as we would have written it: read-only, with our sub-path only.

    A foreign sub-path could make kubelet create a missing directory inside the snapshot.
    """
    if not any(m.get("name") == volume for m in mounts_of(container)):
        return
    kept, paths = list[Json](), set[str]()
    for mount in mounts_of(container):
        if mount.get("name") != volume:
            kept.append(mount)
        elif (path := path_of(mount)) not in paths:
            paths.add(path)
            kept.append(MountPlace(volume, path, sub_path).mount())
    container["volumeMounts"] = kept


def ensure_variable(container: Json, name: str, value: str) -> None:
    """Set an environment variable unless the container has its own; first, so that others can refer to it."""
    variables: list[Json] = container.get("env") or []
    if not any(v.get("name") == name for v in variables):
        container["env"] = [{"name": name, "value": value}, *variables]


def force_read_only(container: Json, volumes: Collection[str]) -> None:
    """Make every mount of these volumes read-only, leaving the rest of each mount unchanged."""
    if any(m.get("name") in volumes and not m.get("readOnly") for m in mounts_of(container)):
        container["volumeMounts"] = [
            m | {"readOnly": True} if m.get("name") in volumes else m for m in mounts_of(container)
        ]
