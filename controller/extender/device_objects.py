"""The fields of Nodes and Pods that device accounting needs."""

from collections.abc import Mapping
from typing import Any

from shared.api.core import TERMINAL_PHASES
from shared.api.meta import ApiStruct
from shared.devices.scheduler import DEVICES_RESOURCE
from shared.kube.objects import Object
from shared.quantity import parse_quantity


class NodeResources(ApiStruct, frozen=True, kw_only=True):
    """The resources that Kubernetes itself counts on a node."""

    capacity: dict[str, Any] = {}
    allocatable: dict[str, Any] = {}


class DeviceNode(Object, frozen=True, kw_only=True):
    """A Node, reduced to what device accounting needs."""

    status: NodeResources = NodeResources()


class UsedClaim(ApiStruct, frozen=True, kw_only=True):
    """A container's use of a claim, by its name in the pod."""

    name: str = ""


class RequestedResources(ApiStruct, frozen=True, kw_only=True):
    """The requests of a container."""

    requests: dict[str, Any] = {}
    claims: list[UsedClaim] = []


class DeviceContainer(ApiStruct, frozen=True, kw_only=True):
    """A container and its resource requests; an init container may be a sidecar."""

    name: str = ""
    resources: RequestedResources = RequestedResources()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container runs as long as its pod."""
        return self.restart_policy == "Always"

    @property
    def extended_resources(self) -> dict[str, int]:
        """The extended resources that the container requests, except the one that marks the pods of our scheduler."""
        requests = whole_numbers(self.resources.requests)
        return {name: count for name, count in requests.items() if "/" in name and name != DEVICES_RESOURCE and count}


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A reference from a pod to a ResourceClaim, or to the template of one that is made for this pod only."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class DevicePodSpec(ApiStruct, frozen=True, kw_only=True):
    """The node of a pod, its scheduler, its containers and its claims."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[DeviceContainer] = []
    init_containers: list[DeviceContainer] = []
    resource_claims: list[PodResourceClaim] = []


class PodPhase(ApiStruct, frozen=True, kw_only=True):
    """The phase of a pod."""

    phase: str = ""


class DevicePod(Object, frozen=True, kw_only=True):
    """A Pod, reduced to what device accounting needs."""

    spec: DevicePodSpec = DevicePodSpec()
    status: PodPhase = PodPhase()

    @property
    def has_ended(self) -> bool:
        """Whether the pod has succeeded or failed, so that its containers never run again."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def holds_devices(self) -> bool:
        """Whether the pod is on a node and has not ended."""
        return bool(self.spec.node_name) and not self.has_ended


def whole_numbers(resources: Mapping[str, Any]) -> dict[str, int]:
    """Return the quantities that are whole numbers; invalid quantities are left out."""
    found: dict[str, int] = {}
    for name, value in resources.items():
        if isinstance(value, str) and value.endswith("m"):
            continue
        try:
            found[name] = parse_quantity(value)
        except ValueError:
            continue
    return found
