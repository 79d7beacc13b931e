"""The fields of built-in Kubernetes kinds that Larder reads."""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.api.meta import ApiStruct, holds
from shared.kube.objects import Key, Object, drop_excess

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
DEPLOYMENTS = "/apis/apps/v1/deployments"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SECRET_LABEL = "larder.dev/credentials"  # noqa: S105 - the name of a label
STORAGE = "storage"  # the resource that a claim requests
BOUND = "Bound"  # the phase of a claim
HOSTS_ANNOTATION = "larder.dev/hosts"
_LONGEST_BYTES = 4096  # of one free-form field
TERMINAL_PHASES = ("Succeeded", "Failed")  # of pods


def pods_in(namespace: str) -> str:
    """Return the API path of the pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


def jobs_in(namespace: str) -> str:
    """Return the API path of the Jobs of a namespace."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def claims_in(namespace: str) -> str:
    """Return the API path of the claims of a namespace."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


class PlainCondition(ApiStruct, frozen=True, kw_only=True):
    """Type and status of a condition."""

    type: str = ""
    status: str = ""


class ObservedCondition(ApiStruct, frozen=True, kw_only=True):
    """A condition with its reason and message."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ObservedStatus(ApiStruct, frozen=True, kw_only=True):
    """A status whose conditions are read with reason and message."""

    conditions: list[ObservedCondition] = []


class StatusWithConditions(ApiStruct, frozen=True, kw_only=True):
    """The conditions of a Node or a Pod, and a Pod's phase."""

    phase: str = ""
    conditions: list[PlainCondition] = []

    @property
    def ready(self) -> bool:
        """Whether the condition Ready is True."""
        return holds(self.conditions, "Ready")


class Node(Object, frozen=True, kw_only=True):
    """A Node."""

    status: StatusWithConditions = StatusWithConditions()

    @property
    def ready(self) -> bool:
        """Whether the condition Ready is True."""
        return self.status.ready


class HostPath(ApiStruct, frozen=True, kw_only=True):
    """The hostPath of a volume."""

    path: str = ""


class MountedClaim(ApiStruct, frozen=True, kw_only=True):
    """The persistentVolumeClaim of a volume."""

    claim_name: str = ""


class Volume(ApiStruct, frozen=True, kw_only=True):
    """The sources of a volume that can hold a model."""

    host_path: HostPath = HostPath()
    persistent_volume_claim: MountedClaim = MountedClaim()


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """Only the node affinity."""

    node_affinity: dict[str, Any] = {}


class SchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """Keeps a pod from being scheduled until it is removed."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The node of a pod, its node requirements, and its volumes.

    Tenants may write megabytes of requirements. A node selector or affinity of more than 4 KiB counts as none: only the
    scheduler knows where such a pod may run.
    """

    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    scheduling_gates: list[SchedulingGate] = []
    volumes: list[Volume] = []

    def __post_init__(self) -> None:
        """Drop requirements that are too long to keep in memory and to compare with every node."""
        if is_long(self.node_selector):
            msgspec.structs.force_setattr(self, "node_selector", {})
        if is_long(self.affinity.node_affinity):
            msgspec.structs.force_setattr(self, "affinity", Affinity())

    @property
    def host_paths(self) -> list[str]:
        """The host paths of its volumes."""
        return [volume.host_path.path for volume in self.volumes if volume.host_path.path]

    @property
    def claims(self) -> list[str]:
        """The names of the claims of its volumes."""
        return [v.persistent_volume_claim.claim_name for v in self.volumes if v.persistent_volume_claim.claim_name]


def is_long(found: Mapping[str, Any]) -> bool:
    """Return whether a free-form field, such as a node affinity, is too long to be kept or compared with every node."""
    return bool(found) and len(msgspec.json.encode(found)) > _LONGEST_BYTES


class Pod(Object, frozen=True, kw_only=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: StatusWithConditions = StatusWithConditions()

    def __post_init__(self) -> None:
        """Drop metadata that would take too much memory."""
        drop_excess(self.metadata)


class StorageRequests(ApiStruct, frozen=True, kw_only=True):
    """The requests of a claim: amounts by resource."""

    requests: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Drop amounts that mean nothing for a claim; tenants may write 100,000 of them."""
        found = {name: amount for name, amount in self.requests.items() if name == STORAGE}
        msgspec.structs.force_setattr(self, "requests", found)


class ClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The access modes, size, class and volume of a claim."""

    access_modes: list[str] = []
    resources: StorageRequests = StorageRequests()
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    storage_class_name: str = ""


class ClaimStatus(StatusWithConditions, frozen=True, kw_only=True):
    """The phase of a claim, and the size of its volume."""

    capacity: dict[str, str] = {}


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def __post_init__(self) -> None:
        """Drop metadata that would take too much memory."""
        drop_excess(self.metadata)

    @property
    def requested(self) -> str:
        """The requested size, as a quantity."""
        return self.spec.resources.requests.get(STORAGE, "0")

    @property
    def capacity(self) -> str:
        """The size of its volume, as a quantity."""
        return self.status.capacity.get(STORAGE, "0")


class ClaimRef(ApiStruct, frozen=True, kw_only=True):
    """The claim that a volume is bound to, or reserved for while `uid` is empty."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(ApiStruct, frozen=True, kw_only=True):
    """What identifies a volume of a model: its directory, its mount options and its claim."""

    local: HostPath = HostPath()
    claim_ref: ClaimRef = ClaimRef()
    mount_options: list[str] = []


class PersistentVolume(Object, frozen=True, kw_only=True):
    """A volume, with the fields by which the volumes of models are recognised."""

    spec: VolumeSpec = VolumeSpec()
    status: StatusWithConditions = StatusWithConditions()

    @property
    def claim(self) -> Key:
        """The claim that the volume is reserved for, or bound to."""
        return Key(self.spec.claim_ref.namespace, self.spec.claim_ref.name)


class StorageClass(Object, frozen=True, kw_only=True):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"


class Secret(Object, frozen=True, kw_only=True):
    """A Secret; `data` is base64-encoded and never printed."""

    data: dict[str, str] = {}

    def __repr__(self) -> str:
        """Return the name without any values."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"
