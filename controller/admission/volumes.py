"""The volumes that provide a pod's model, and the check that no other volume imitates them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.containers import containers_of, mounts_of, path_of, take_mounts
from controller.admission.errors import MountConflict, StorePathReserved
from controller.admission.paths import is_within, reaches
from controller.admission.pod_annotations import Json
from shared.names import snapshot_path
from shared.uri.model_uri import PvcUri

BASE_MODEL_VOLUME = "larder-model"
CACHE_VOLUME = "kserve-pvc-source"


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """One revision of one model in a node's store."""

    id: str
    revision: str


def model_volume(name: str, snapshot: SnapshotKey, store_root: str) -> Json:
    """Return the volume for a single snapshot; only this function knows how pods reach the store.

    With type `Directory` the first start waits for the files; for a restarted container the runtime would create an
    empty directory, which is why snapshots in use are never moved.
    """
    path = f"{store_root}/{snapshot_path(snapshot.id, snapshot.revision)}"
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}


def claim_volume(name: str, uri: PvcUri) -> Json:
    """Return the volume for a model on a claim in the pod's own namespace."""
    return {"name": name, "persistentVolumeClaim": {"claimName": uri.claim, "readOnly": True}}


def is_snapshot(volume: Mapping[str, Any], store_root: str) -> bool:
    """Return whether a volume is one that `model_volume` creates, for any model."""
    path = (volume.get("hostPath") or {}).get("path", "")
    return path != f"{store_root}/models" and is_within(path, f"{store_root}/models")


def ensure_volume(spec: Json, wanted: Json, store_root: str) -> None:
    """Add the volume to the pod, replacing our own earlier one. Raises MountConflict if the name is taken."""
    volumes: list[Json] = spec.get("volumes") or []
    found = next((v for v in volumes if v.get("name") == wanted["name"]), None)
    if found is None:
        spec["volumes"] = [*volumes, wanted]
        return
    if found != wanted and not is_snapshot(found, store_root) and not _is_claim_of_ours(found):
        raise MountConflict(
            f"the pod already has a volume {wanted['name']!r}{_mounted(spec, wanted['name'])}, the name that the "
            "model's volume needs; rename it"
        )
    spec["volumes"] = [wanted if v is found else v for v in volumes]


def _is_claim_of_ours(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume is one that `claim_volume` creates for a base model."""
    claim = volume.get("persistentVolumeClaim") or {}
    return volume.get("name") == BASE_MODEL_VOLUME and claim.get("readOnly") is True


def drop_volume(spec: Json, name: str, store_root: str) -> list[str]:
    """Remove a snapshot volume of that name from the pod, if any, and return where it was mounted."""
    if not any(v.get("name") == name and is_snapshot(v, store_root) for v in spec.get("volumes") or []):
        return []
    spec["volumes"] = [v for v in spec["volumes"] if v.get("name") != name]
    return [path for container in containers_of(spec) for path in take_mounts(container, name)]


def check_host_paths(spec: Mapping[str, Any], ours: list[Json], store_root: str) -> None:
    """Raise StorePathReserved if a volume that is not ours reaches into the store."""
    for volume in spec.get("volumes") or []:
        path = (volume.get("hostPath") or {}).get("path", "")
        if path and volume not in ours and reaches(path, store_root):
            raise StorePathReserved(
                f"volume {volume.get('name')!r} mounts host path {path}{_mounted(spec, volume.get('name'))}, "
                f"which is the model store ({store_root}) or leads to it; remove the volume and its mounts, and "
                "request the model by annotation only"
            )


def _mounted(spec: Mapping[str, Any], name: object) -> str:
    """Return where the pod mounts a volume, for a message about it."""
    paths = sorted({path_of(m) for c in containers_of(spec) for m in mounts_of(c) if m.get("name") == name})
    return f" (mounted at {', '.join(paths)})" if paths else ""
