"""The claim of a ModelCache and, with `pvSpec`, its volume. No input or output, no clock."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.downloads.job import owner_reference
from controller.jobs.observed_jobs import Job
from controller.placement.volume_names import volume_names
from controller.volumes.objects import CLAIM_CONSTANTS, unknown_fields
from shared.api.core import PersistentVolume, PersistentVolumeClaim, is_long
from shared.api.model_cache import GROUP, VERSION, ModelCache
from shared.json_object import Json
from shared.kube.objects import Meta
from shared.quantity import parse_quantity

OWNER_TYPE = (f"{GROUP}/{VERSION}", "ModelCache")
CACHE_LABEL = "larder.dev/model-cache"  # on the claim, the volume and the Job of a ModelCache
CLAIM_FIELDS = frozenset(("accessModes", "resources", "storageClassName"))
VOLUME_FIELDS = frozenset(
    ("accessModes", "capacity", "csi", "mountOptions", "persistentVolumeReclaimPolicy", "storageClassName")
)
TEMPLATE_ANNOTATION = "larder.dev/claim-template"  # on the claim: the digest of the template it was created from
_MODES = ("ReadWriteOnce",)
_MODES_THAT_WRITE = frozenset(("ReadWriteOnce", "ReadWriteMany"))
_HEADROOM, _LEAST_HEADROOM_BYTES, _UNIT_BYTES = 0.1, 64 * 2**20, 2**20  # for the file system and unfinished files


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """The storage that a cache requests: `pvcSpec` and `pvSpec`.

    Args:
        namespace: Namespace of the cache.
        claim: The pvcSpec.
        volume: The pvSpec.
    """

    namespace: str
    claim: Mapping[str, Any]
    volume: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Identifies the template."""
        text = json.dumps([self.claim, self.volume], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def problems(self, drivers: Collection[str]) -> Iterator[str]:
        """Yield what is wrong; `drivers` are the CSI drivers whose volumes tenants may describe themselves."""
        for where, template in (("spec.pvcSpec", self.claim), ("spec.pvSpec", self.volume)):
            if is_long(template):
                yield f"{where} has more than 4 KiB, which no claim or volume needs; write fewer or shorter values"
                return
        yield from unknown_fields("spec.pvcSpec", self.claim, CLAIM_FIELDS, CLAIM_CONSTANTS)
        yield from unknown_fields("spec.pvSpec", self.volume, VOLUME_FIELDS, CLAIM_CONSTANTS)
        for where, template in (("spec.pvcSpec", self.claim), ("spec.pvSpec", self.volume)):
            modes = template.get("accessModes")
            if modes is not None and (
                not isinstance(modes, list) or not _MODES_THAT_WRITE.intersection(map(str, modes))
            ):
                yield f"{where}.accessModes: the download writes to the volume; name ReadWriteOnce or ReadWriteMany"
        resources = self.claim.get("resources") or {}
        if not isinstance(resources, Mapping) or not isinstance(resources.get("requests") or {}, Mapping):
            yield "spec.pvcSpec.resources: write an object, for example {requests: {storage: 200Gi}}"
        if not isinstance(self.volume.get("capacity") or {}, Mapping):
            yield "spec.pvSpec.capacity: write an object, for example {storage: 200Gi}"
        if self.volume:
            yield from self._driver_problems(drivers)

    def _driver_problems(self, drivers: Collection[str]) -> Iterator[str]:
        csi = self.volume.get("csi")
        driver = csi.get("driver") if isinstance(csi, Mapping) else None
        if not isinstance(csi, Mapping) or not isinstance(driver, str) or driver not in drivers:
            allowed = ", ".join(sorted(drivers)) or "none so far"
            yield (
                f"spec.pvSpec.csi.driver: {driver or 'no driver'} may not be used; an administrator allows drivers in "
                f"modelCaches.csiDrivers of the chart ({allowed}). With a storage class that provisions volumes, leave "
                "pvSpec out"
            )
            return
        for name in sorted(key for key in csi if str(key).endswith("SecretRef")):
            secret = csi[name]
            if not isinstance(secret, Mapping) or secret.get("namespace") != self.namespace:
                yield f"spec.pvSpec.csi.{name}: name a Secret in namespace {self.namespace}"


def template_of(cache: ModelCache) -> ClaimTemplate:
    """Return a cache's storage requirements."""
    return ClaimTemplate(cache.metadata.namespace, cache.spec.pvc_spec, cache.spec.pv_spec)


@dataclass(frozen=True, slots=True)
class StorageManifest:
    """Everything that determines the claim of a cache, and its volume.

    Args:
        cache: Metadata of the cache, which owns the claim.
        claim: Name of the claim.
        size_bytes: Size to request, if the template names none.
        template: What the cache requests.
    """

    cache: Meta
    claim: str
    size_bytes: int
    template: ClaimTemplate

    @property
    def volume_names(self) -> tuple[str, ...]:
        """The names that its volume may have; none if the storage class provisions the volume."""
        return volume_names(self.cache.namespace, self.claim) if self.template.volume else ()

    def claim_body(self, volume_name: str = "") -> Json:
        """Return the PersistentVolumeClaim, for this volume if Larder creates it."""
        ours, volume = self.template.claim, self.template.volume
        resources = dict(ours.get("resources") or {})
        requests = dict(resources.get("requests") or {})
        requests.setdefault("storage", (volume.get("capacity") or {}).get("storage") or str(self.size_bytes))
        spec: Json = {
            "accessModes": ours.get("accessModes") or volume.get("accessModes") or list(_MODES),
            "resources": resources | {"requests": requests},
            "volumeMode": "Filesystem",
        }
        if volume_name:
            spec |= {"volumeName": volume_name, "storageClassName": volume.get("storageClassName") or ""}
        elif "storageClassName" in ours:
            spec["storageClassName"] = ours["storageClassName"]
        owners = [owner_reference(self.cache, OWNER_TYPE)]
        annotations = {TEMPLATE_ANNOTATION: self.template.digest}
        metadata = {"name": self.claim, "namespace": self.cache.namespace, "ownerReferences": owners}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata | {"labels": cache_labels(self.cache), "annotations": annotations},
            "spec": spec,
        }

    def volume_body(self, name: str) -> Json:
        """Return the PersistentVolume that pvSpec describes, reserved for the claim."""
        ours, claim = self.template.volume, self.claim_body(name)["spec"]
        spec: Json = {
            "capacity": ours.get("capacity") or {"storage": claim["resources"]["requests"]["storage"]},
            "accessModes": claim["accessModes"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": ours.get("persistentVolumeReclaimPolicy") or "Retain",
            "storageClassName": claim["storageClassName"],
            "csi": ours["csi"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": self.cache.namespace,
                "name": self.claim,
            },
        }
        if ours.get("mountOptions"):
            spec["mountOptions"] = ours["mountOptions"]
        metadata = {"name": name, "labels": cache_labels(self.cache)}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def cache_labels(cache: Meta) -> dict[str, str]:
    """Return the labels of all objects that Larder creates for a cache."""
    return {CACHE_LABEL: cache.uid, "app.kubernetes.io/managed-by": "larder"}


def wanted_bytes(cache: ModelCache, size_bytes: int) -> int:
    """Return the size to request: the larger of `modelSize` and the model's size, with some headroom."""
    try:
        declared = parse_quantity(cache.spec.model_size) if cache.spec.model_size is not None else 0
    except (ValueError, ArithmeticError):
        declared = 0
    most = max(declared, size_bytes)
    with_headroom = most + max(int(most * _HEADROOM), _LEAST_HEADROOM_BYTES)
    return -(-with_headroom // _UNIT_BYTES) * _UNIT_BYTES


def is_claim_of(claim: PersistentVolumeClaim, cache: Meta) -> bool:
    """Return whether Larder created a claim for a cache."""
    owned = any(owner.get("uid") == cache.uid for owner in claim.metadata.owner_references)
    return owned and claim.metadata.labels.get(CACHE_LABEL) == cache.uid


def is_of_template(claim: PersistentVolumeClaim, cache: ModelCache) -> bool:
    """Return whether a claim was created from its cache's present template; True without the annotation."""
    template = template_of(cache)
    return claim.metadata.annotations.get(TEMPLATE_ANNOTATION, template.digest) == template.digest


def is_volume_of(volume: PersistentVolume, cache: Meta) -> bool:
    """Return whether Larder created a volume for a cache."""
    return volume.metadata.labels.get(CACHE_LABEL) == cache.uid and volume.claim.namespace == cache.namespace


def is_job_of(job: Job, cache: Meta) -> bool:
    """Return whether Larder created a Job for a cache."""
    return job.metadata.labels.get(CACHE_LABEL) == cache.uid
