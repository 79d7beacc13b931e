"""The input of a diagnosis, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.cli.why.device_kinds import DeviceSurroundings
from controller.cli.why.kinds import ObservedNode, ObservedPod, Workload, WorkloadEvent
from controller.placement.demand import Demand
from controller.placement.groups import groups_of
from controller.placement.targets import is_target
from shared.api.core import PersistentVolumeClaim
from shared.api.meta import ModelStatus, NodeState
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.errors import Refused
from shared.kube.objects import Meta, Object

_NO_DEVICES = DeviceSurroundings()


@dataclass(frozen=True, slots=True)
class DeviceScheduling:
    """What affects whether `larder-scheduler` places a pod; `hidden`: the parts that this user may not read."""

    namespace: Object | None = None
    scheduler: Workload | None = None
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSurroundings:
    """The surroundings of one pod.

    Args:
        owners: The objects that it belongs to, from its controller upwards, such as `ReplicaSet web-5c9`.
        claims: Its existing claims that are reported, by name; None if this user may not read claims.
        warnings: The warnings about it, newest first.
        devices: Its claims for devices.
        scheduling: Read only while the pod waits for requested devices; otherwise None.
    """

    owners: tuple[str, ...] = ()
    claims: Mapping[str, PersistentVolumeClaim] | None = field(default_factory=dict)
    warnings: tuple[WorkloadEvent, ...] = ()
    devices: DeviceSurroundings = _NO_DEVICES
    scheduling: DeviceScheduling | None = None


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
    expired: bool = False


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

    def excludes(self, namespace: str) -> bool:
        """Return whether Larder leaves the pods of a namespace alone."""
        return namespace in ("kube-system", self.release_namespace)

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
