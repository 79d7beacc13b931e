"""Nodes, pods, workloads and Events, with the fields that a diagnosis reads."""

from typing import Any

from controller.extender.device_objects import DeviceContainer, PodResourceClaim, RequestedResources
from controller.jobs.observed_jobs import ContainerStatus, PodStatus
from shared.api.core import Affinity, ObservedStatus, SchedulingGate, StatusWithConditions, Volume
from shared.api.meta import ApiStruct, holds
from shared.devices.scheduler import DEFAULT_SCHEDULER
from shared.kube.objects import Meta, Object


class Taint(ApiStruct, frozen=True, kw_only=True):
    """A taint, which repels pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """A toleration, which allows a pod on tainted nodes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ObservedNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The fields of the spec that restrict scheduling on the node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ObservedNodeStatus(StatusWithConditions, frozen=True, kw_only=True):
    """A node's conditions, and its allocatable resources."""

    allocatable: dict[str, Any] = {}


class ObservedNode(Object, frozen=True, kw_only=True):
    """A Node, as scheduling and placement see it."""

    spec: ObservedNodeSpec = ObservedNodeSpec()
    status: ObservedNodeStatus = ObservedNodeStatus()


class ExtendedResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """The claim that the scheduler created for a pod's extended resources."""

    resource_claim_name: str = ""


class ContainerResources(RequestedResources, frozen=True, kw_only=True):
    """The requests and limits of a container."""

    limits: dict[str, str | int] = {}


class ObservedContainer(DeviceContainer, frozen=True, kw_only=True):
    """A container and its resources."""

    resources: ContainerResources = ContainerResources()


class ObservedPodSpec(ApiStruct, frozen=True, kw_only=True):
    """The fields that affect where a pod is scheduled, and its volumes."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    scheduling_gates: list[SchedulingGate] = []
    tolerations: list[Toleration] = []
    volumes: list[Volume] = []
    resource_claims: list[PodResourceClaim] = []
    init_containers: list[ObservedContainer] = []
    containers: list[ObservedContainer] = []

    @property
    def extended_resources(self) -> list[str]:
        """The extended resources that containers request."""
        limits = (name for c in (*self.init_containers, *self.containers) for name in c.resources.limits)
        return list(dict.fromkeys(name for name in limits if "/" in name))


class ObservedPodStatus(PodStatus, frozen=True, kw_only=True):
    """The status of a pod."""

    init_container_statuses: list[ContainerStatus] = []
    resource_claim_statuses: list[PodResourceClaim] = []
    extended_resource_claim_status: ExtendedResourceClaim | None = None


class ObservedPod(Object, frozen=True, kw_only=True):
    """A pod."""

    spec: ObservedPodSpec = ObservedPodSpec()
    status: ObservedPodStatus = ObservedPodStatus()

    @property
    def ready(self) -> bool:
        """Whether it is Ready now."""
        return holds(self.status.conditions, "Ready")


class PodTemplate(ApiStruct, frozen=True, kw_only=True):
    """The template of a workload's pods."""

    metadata: Meta = Meta()


class PodSelector(ApiStruct, frozen=True, kw_only=True):
    """The selector of a workload's pods."""

    match_labels: dict[str, str] = {}


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """The number and selector of the wanted pods; the union of all kinds' fields."""

    replicas: int = 1
    paused: bool = False
    suspend: bool = False
    selector: PodSelector = PodSelector()
    template: PodTemplate = PodTemplate()


class WorkloadStatus(ObservedStatus, frozen=True, kw_only=True):
    """The counts of existing pods; the union of all kinds' fields."""

    replicas: int = 0
    ready_replicas: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Workload(Object, frozen=True, kw_only=True):
    """A Deployment, ReplicaSet, StatefulSet or Job."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class EventObject(ApiStruct, frozen=True, kw_only=True):
    """The object that an Event is about."""

    api_version: str = ""
    kind: str = ""
    uid: str = ""


class WorkloadEvent(Object, frozen=True, kw_only=True):
    """An Event that a Kubernetes controller recorded on its object."""

    involved_object: EventObject = EventObject()
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def time(self) -> str:
        """When it was last seen."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp
