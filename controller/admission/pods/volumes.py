"""The volumes that provide a pod's model, and the check that no other volume imitates them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from controller.admission.catalog.port import Catalog, CatalogModel
from controller.admission.errors import MountConflict, StorePathReserved
from controller.admission.paths import is_within, reaches
from controller.admission.pods.containers import containers_of, mounts_of, path_of, take_mounts
from controller.admission.pods.place_pod import placement_of
from controller.admission.pods.pod_annotations import MOUNT, annotations_of, read_models
from controller.admission.settings import AdmissionSettings, Mount
from controller.placement.pod_placement import Placement
from controller.placement.volume_names import SnapshotKey, read_claims, waiting_name
from shared.json_object import Json
from shared.names import snapshot_path

BASE_MODEL_VOLUME = "larder-model"
CACHE_VOLUME = "kserve-pvc-source"


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """How one pod reaches the files of models; no other code knows.

    Args:
        namespace: Namespace of the pod.
        mount: `claim`, or `hostPath` where a pod or the cluster asks for that.
        placement: A preferred pod may wait on a node without the files, which the ordinary claim does not allow.
        store_root: Root of the store on every node.
        earlier: Claims that an earlier pass added to the pod.
        catalog: Knows which names of claims are free.
    """

    namespace: str
    mount: Mount
    placement: Placement
    store_root: str
    earlier: Collection[str]
    catalog: Catalog

    def of_snapshot(self, name: str, model: CatalogModel) -> Json:
        """Return the volume for the serving revision of a model.

        With type `Directory`, the first start of a pod with a hostPath waits for the files; for a restarted container
        the runtime would create an empty directory, which is why snapshots in use are never moved.
        """
        wanted = SnapshotKey(model.id, model.serving_revision)
        if self.mount == "claim" and self.placement == "preferred":
            return _claim(name, waiting_name(wanted))
        if self.mount == "claim":
            return _claim(name, self.catalog.claim_name(self.namespace, wanted, model.claim_revision))
        path = f"{self.store_root}/{snapshot_path(wanted.id, wanted.revision)}"
        return {"name": name, "hostPath": {"path": path, "type": "Directory"}}

    def of_claim(self, name: str, claim: str) -> Json:
        """Return the volume for a model on a claim of the pod's namespace."""
        return _claim(name, claim)

    def of_model(self, name: str, model: CatalogModel) -> Json:
        """Return the volume for a cache: its claim, or the snapshot of its serving revision."""
        return self.of_claim(name, model.claim) if model.claim else self.of_snapshot(name, model)

    def is_snapshot(self, volume: Mapping[str, Any]) -> bool:
        """Return whether a volume is one that `of_snapshot` returns, for any model."""
        path = (volume.get("hostPath") or {}).get("path", "")
        models = f"{self.store_root}/models"
        return claim_of(volume) in self.earlier or (path != models and is_within(path, models))

    def ensure(self, spec: Json, wanted: Json) -> None:
        """Add the volume to the pod, replacing our own earlier one. Raises MountConflict if the name is taken."""
        volumes: list[Json] = spec.get("volumes") or []
        found = next((v for v in volumes if v.get("name") == wanted["name"]), None)
        if found is None:
            spec["volumes"] = [*volumes, wanted]
            return
        if found != wanted and not self.is_snapshot(found) and not _is_read_only_claim(found):
            raise MountConflict(
                f"the pod already has a volume {wanted['name']!r}{_mounted(spec, wanted['name'])}, the name that the "
                "model's volume needs; rename it"
            )
        spec["volumes"] = [wanted if v is found else v for v in volumes]

    def drop(self, spec: Json, name: str) -> list[str]:
        """Remove a snapshot volume of that name from the pod, if any, and return where it was mounted."""
        if not any(v.get("name") == name and self.is_snapshot(v) for v in spec.get("volumes") or []):
            return []
        spec["volumes"] = [v for v in spec["volumes"] if v.get("name") != name]
        return [path for container in containers_of(spec) for path in take_mounts(container, {name})]


def pod_volumes(pod: Mapping[str, Any], namespace: str, catalog: Catalog, settings: AdmissionSettings) -> PodVolumes:
    """Return how a pod reaches models.

    Raises MountConflict or InvalidRequest if its annotations have invalid values.
    """
    requested = annotations_of(pod).get(MOUNT, settings.mount)
    if requested not in get_args(Mount):
        raise MountConflict(f"annotation {MOUNT} is {requested!r}; write {' or '.join(get_args(Mount))}")
    earlier = {*read_claims(annotations_of(pod)), *_claims_of_caches(pod, namespace, catalog)}
    mount: Mount = "claim" if requested == "claim" else "hostPath"
    return PodVolumes(namespace, mount, placement_of(pod, settings), settings.store_root, earlier, catalog)


def _claims_of_caches(pod: Mapping[str, Any], namespace: str, catalog: Catalog) -> Iterator[str]:
    """Yield the claims of the ModelCaches that an earlier pass added to the pod."""
    identities = {identity for identity, _ in read_models(pod)}
    if identities:
        yield from (cache.claim for cache in catalog.model_caches(namespace) if cache.id in identities and cache.claim)


def claim_of(volume: Mapping[str, Any]) -> str:
    """Return the claim of a volume, or an empty string."""
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def _claim(name: str, claim: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}


def _is_read_only_claim(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume is one that `of_claim` returns for a base model."""
    claim = volume.get("persistentVolumeClaim") or {}
    return volume.get("name") == BASE_MODEL_VOLUME and claim.get("readOnly") is True


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
