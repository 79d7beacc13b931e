"""The manifests of volumes and claims, and what `pvSpec` and `pvcSpec` of a cache may change in them.

No input or output, no clock.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.placement.volume_names import MODEL_ANNOTATION, VOLUME_LABEL, SnapshotKey, waiting_name
from shared.json_object import Json
from shared.names import snapshot_label, snapshot_path

VOLUME_FIELDS = frozenset(("capacity", "storageClassName", "accessModes", "mountOptions"))
CLAIM_FIELDS = frozenset(("resources", "storageClassName", "accessModes"))
CLAIM_CONSTANTS = {"volumeMode": "Filesystem"}  # may be stated, as many manifests do, but not changed
_VOLUME_CONSTANTS = CLAIM_CONSTANTS | {"persistentVolumeReclaimPolicy": "Retain"}
READ_ONLY = "ro"
# No other options: kubelet joins them with commas, and a later rw would undo ro.
MOUNT_OPTIONS = frozenset((READ_ONLY, "noatime", "nodev", "nodiratime", "noexec", "nosuid", "relatime"))
_MODES = ("ReadOnlyMany",)


@dataclass(frozen=True, slots=True)
class VolumeTemplate:
    """What a cache requests for its volumes beyond the defaults: `pvSpec` and `pvcSpec`."""

    volume: Mapping[str, Any] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the template."""
        volume = dict(self.volume)
        if volume.pop("csi", None) is not None:
            yield (
                "spec.pvSpec.csi: a ClusterModelCache keeps its files on the disks of nodes; to keep a model on a "
                "volume of a CSI driver, declare a ModelCache"
            )
        yield from unknown_fields("spec.pvSpec", volume, VOLUME_FIELDS, _VOLUME_CONSTANTS)
        yield from unknown_fields("spec.pvcSpec", self.claim, CLAIM_FIELDS, CLAIM_CONSTANTS)
        options = self.volume.get("mountOptions") or []
        if not isinstance(options, list) or not all(map(_is_allowed, options)):
            yield f"spec.pvSpec.mountOptions: write a list with any of {', '.join(sorted(MOUNT_OPTIONS))}"


def _is_allowed(option: object) -> bool:
    return isinstance(option, str) and option in MOUNT_OPTIONS


def unknown_fields(
    where: str, template: Mapping[str, Any], known: Collection[str], constants: Mapping[str, str]
) -> Iterator[str]:
    """Yield a problem for each field that is neither known nor a constant with its fixed value."""
    for name in sorted(template.keys() - known):
        if name not in constants or template[name] != constants[name]:
            yield f"{where}.{name}: Larder sets this field itself; {where} may set {', '.join(sorted(known))}"


@dataclass(frozen=True, slots=True)
class VolumeManifest:
    """Everything that determines the objects of one claim.

    Args:
        namespace: Namespace of the claim.
        claim: Name of the claim.
        volume: Name of the volume.
        wanted: The files.
        size_bytes: Size of the model; at least 1 byte is requested.
        store_root: Root of the store on every node.
        template: What the cache requests.
    """

    namespace: str
    claim: str
    volume: str
    wanted: SnapshotKey
    size_bytes: int
    store_root: str
    template: VolumeTemplate = VolumeTemplate()

    @property
    def path(self) -> str:
        """The directory of the snapshot on a node."""
        return f"{self.store_root}/{snapshot_path(self.wanted.id, self.wanted.revision)}"

    def volume_body(self) -> Json:
        """Return the PersistentVolume."""
        ours = self.template.volume
        written = ours.get("mountOptions")
        options = [o for o in written if _is_allowed(o) and o != READ_ONLY] if isinstance(written, list) else []
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.volume} | self._marks(),
            "spec": {
                "capacity": ours.get("capacity") or self._request(),
                "volumeMode": "Filesystem",
                "accessModes": ours.get("accessModes") or list(_MODES),
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": self._class(),
                "mountOptions": [READ_ONLY, *options],
                "local": {"path": self.path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [self._term()]}},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": self.namespace,
                    "name": self.claim,
                },
            },
        }

    def claim_body(self) -> Json:
        """Return the PersistentVolumeClaim."""
        ours, volume = self.template.claim, self.template.volume
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": self.claim, "namespace": self.namespace} | self._marks(),
            "spec": {
                "accessModes": ours.get("accessModes") or volume.get("accessModes") or list(_MODES),
                "resources": ours.get("resources") or {"requests": volume.get("capacity") or self._request()},
                "storageClassName": self._class(),
                "volumeMode": "Filesystem",
                "volumeName": self.volume,
            },
        }

    def _class(self) -> str:
        """Return the storage class of volume and claim, which bind only if it is the same; by default none."""
        return str(self.template.volume.get("storageClassName") or self.template.claim.get("storageClassName") or "")

    def _request(self) -> Json:
        return {"storage": str(max(1, self.size_bytes))}

    def _term(self) -> Json:
        """Return the nodes of the volume: those with the files, or all nodes if the claim is for waiting pods."""
        if self.claim == waiting_name(self.wanted):
            return {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
        key = snapshot_label(self.wanted.id, self.wanted.revision)
        return {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}

    def _marks(self) -> Json:
        label = snapshot_label(self.wanted.id, self.wanted.revision)
        return {
            "labels": {VOLUME_LABEL: "true", label: "true", "app.kubernetes.io/managed-by": "larder"},
            "annotations": {MODEL_ANNOTATION: str(self.wanted)},
        }
