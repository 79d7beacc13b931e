"""The little that we read of Kubernetes' own kinds."""

from shared.api.meta import ApiStruct, holds
from shared.kube.objects import Object

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CLAIMS = "/api/v1/persistentvolumeclaims"
DEPLOYMENTS = "/apis/apps/v1/deployments"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SECRET_LABEL = "larder.dev/credentials"  # noqa: S105 - the name of a label
HOSTS_ANNOTATION = "larder.dev/hosts"


class PlainCondition(ApiStruct, frozen=True, kw_only=True):
    """Type and status of a condition."""

    type: str = ""
    status: str = ""


class Observed(ApiStruct, frozen=True, kw_only=True):
    """A condition with the words of whoever set it."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ObservedStatus(ApiStruct, frozen=True, kw_only=True):
    """A status with conditions that are read by their words."""

    conditions: list[Observed] = []


class StatusWithConditions(ApiStruct, frozen=True, kw_only=True):
    """The conditions of a Node or a Pod, and a Pod's phase."""

    phase: str = ""
    conditions: list[PlainCondition] = []

    @property
    def ready(self) -> bool:
        """Whether the condition Ready is True."""
        return holds(self.conditions, "Ready")


class Node(Object, frozen=True, kw_only=True):
    """A node, as placement sees it."""

    status: StatusWithConditions = StatusWithConditions()

    @property
    def ready(self) -> bool:
        """Whether kubelet says that it is Ready."""
        return self.status.ready


class HostPath(ApiStruct, frozen=True, kw_only=True):
    """A directory of the node."""

    path: str = ""


class MountedClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim of the pod's namespace."""

    claim_name: str = ""


class Volume(ApiStruct, frozen=True, kw_only=True):
    """Where a volume comes from, if that can be a model."""

    host_path: HostPath = HostPath()
    persistent_volume_claim: MountedClaim = MountedClaim()


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """Where a pod runs, and what it mounts."""

    node_name: str = ""
    volumes: list[Volume] = []

    @property
    def host_paths(self) -> list[str]:
        """The directories of the node that it mounts."""
        return [volume.host_path.path for volume in self.volumes if volume.host_path.path]

    @property
    def claims(self) -> list[str]:
        """The claims that it mounts."""
        return [v.persistent_volume_claim.claim_name for v in self.volumes if v.persistent_volume_claim.claim_name]


class Pod(Object, frozen=True, kw_only=True):
    """A pod, as far as an index of them needs it."""

    spec: PodSpec = PodSpec()
    status: StatusWithConditions = StatusWithConditions()


class ClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """How a claim may be used, and its volume."""

    access_modes: list[str] = []
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    storage_class_name: str = ""


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    """A claim, as a model on it is judged by."""

    spec: ClaimSpec = ClaimSpec()
    status: StatusWithConditions = StatusWithConditions()


class StorageClass(Object, frozen=True, kw_only=True):
    """When a class binds its claims."""

    volume_binding_mode: str = "Immediate"


class Secret(Object, frozen=True, kw_only=True):
    """A Secret; `data` is base64, and never printed."""

    data: dict[str, str] = {}

    def __repr__(self) -> str:
        """Name it, never its values."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"
