"""What is read of the cluster for a diagnosis, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.claims.kinds import ContainerStatus, PodStatus
from controller.cli.why.device_kinds import DeviceSurroundings
from controller.placement.demand import Demand
from controller.placement.groups import groups_of
from controller.placement.targets import is_target
from shared.api.core import (
    Affinity,
    ObservedStatus,
    PersistentVolumeClaim,
    SchedulingGate,
    StatusWithConditions,
    Volume,
)
from shared.api.meta import ApiStruct, ModelStatus, NodeState, holds
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.errors import Refused
from shared.kube.objects import Meta, Object

Json = dict[str, Any]
_NO_DEVICES = DeviceSurroundings()


class Taint(ApiStruct, frozen=True, kw_only=True):
    """Keeps away pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """Allows a pod on tainted nodes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ObservedNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """What restricts scheduling on the node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class ObservedNode(Object, frozen=True, kw_only=True):
    """A Node, as scheduling and placement see it."""

    spec: ObservedNodeSpec = ObservedNodeSpec()
    status: StatusWithConditions = StatusWithConditions()


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A claim for devices that a pod names, or has made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ExtendedResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """The claim that the scheduler made for a pod's extended resources."""

    resource_claim_name: str = ""


class ContainerResources(ApiStruct, frozen=True, kw_only=True):
    """The resources of a container."""

    limits: dict[str, str | int] = {}


class ObservedContainer(ApiStruct, frozen=True, kw_only=True):
    """A container, as far as it asks for resources."""

    resources: ContainerResources = ContainerResources()


class ObservedPodSpec(ApiStruct, frozen=True, kw_only=True):
    """What decides where a pod is scheduled, and its volumes."""

    node_name: str = ""
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
        """The resources that containers ask for and Kubernetes itself does not know."""
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
    """How many pods are wanted, and which; the union of all kinds' fields."""

    replicas: int = 1
    paused: bool = False
    suspend: bool = False
    selector: PodSelector = PodSelector()
    template: PodTemplate = PodTemplate()


class WorkloadStatus(ObservedStatus, frozen=True, kw_only=True):
    """How many pods exist; the union of all kinds' fields."""

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


@dataclass(frozen=True, slots=True)
class PodSurroundings:
    """What else is read for one pod.

    Args:
        owners: The objects that it belongs to, from its controller upwards, such as `ReplicaSet web-5c9`.
        claims: Those of its claims that exist and are reported, by name; None if this user may not read claims.
        warnings: The warnings about it, newest first.
        devices: Its claims for devices.
    """

    owners: tuple[str, ...] = ()
    claims: Mapping[str, PersistentVolumeClaim] | None = field(default_factory=dict)
    warnings: tuple[WorkloadEvent, ...] = ()
    devices: DeviceSurroundings = _NO_DEVICES


@dataclass(frozen=True, slots=True)
class DeclaredModel:
    """A declared model: what it asks for, and the controller's status.

    `managed` is False if another product owns the kind and the object does not opt in to Larder.
    """

    demand: Demand
    meta: Meta
    status: ModelStatus
    node_states: Mapping[str, NodeState] = field(default_factory=dict)
    managed: bool = True


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The controller's Lease: who holds it, and whether the holder has not renewed it for too long."""

    holder: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster; `agents` has the pods of each node's agent, `leader` is None if the Lease could not be read.

    `hidden` has, by plural, the API server's message about what this user may not list.
    """

    models: tuple[DeclaredModel, ...] = ()
    groups: tuple[ModelCacheNodeGroup, ...] = ()
    nodes: tuple[ObservedNode, ...] = ()
    model_nodes: Mapping[str, ModelNode] = field(default_factory=dict)
    agents: Mapping[str, tuple[ObservedPod, ...]] = field(default_factory=dict)
    leader: LeaseHolder | None = None
    release_namespace: str = "larder-system"
    hidden: Mapping[str, Refused] = field(default_factory=dict)

    def model(self, kind: str, namespace: str, name: str) -> DeclaredModel | None:
        """Return a declared model, or None."""
        for found in self.models:
            if (found.demand.kind, found.demand.namespace, found.demand.name) == (kind, namespace, name):
                return found
        return None

    def of_id(self, identity: str) -> tuple[DeclaredModel, ...]:
        """Return the models with this id."""
        return tuple(m for m in self.models if m.demand.id == identity)

    def node(self, name: str) -> ObservedNode | None:
        """Return a node, or None."""
        return next((n for n in self.nodes if n.metadata.name == name), None)

    def groups_of(self, node: ObservedNode) -> list[ModelCacheNodeGroup]:
        """Return a node's groups, sorted by name."""
        return groups_of(self.groups, node.metadata.name, node.metadata.labels)

    def is_target(self, demand: Demand, node: ObservedNode) -> bool:
        """Return whether a node should hold a model according to its object."""
        names = {g.metadata.name for g in self.groups_of(node)}
        return is_target(demand, names, node.metadata.name, node.metadata.labels)

    def agent_ready(self, name: str) -> bool:
        """Return whether a ready agent runs on the node."""
        return any(p.ready and p.metadata.deletion_timestamp is None for p in self.agents.get(name, ()))
