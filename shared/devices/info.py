"""The devices of nodes, and the requests and allocations of pods: plain data and pure functions on it.

The attributes correspond to the JSON of the annotation `KubeDevice/DeviceInfo` (`shared.devices.annotation`). Those
that begin with `kube_` come from the Node or the Pod itself and are never in the JSON. `unknown` holds JSON keys that
this version does not know; they are written back unchanged.
"""

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

GROUP_PREFIX = "resource/group/"

ResourceList: TypeAlias = dict[str, int]
ResourceLocation: TypeAlias = dict[str, str]
ResourceScorer: TypeAlias = dict[str, int]


@dataclass
class NodeInfo:
    """The devices of one node.

    `allocatable` is the capacity minus reservations, and `used` is what pods use of it. `scorer` selects the
    scoring function of a resource by number (`controller.devices.scorers`). `kube_cap` and `kube_alloc` are the whole
    numbers in the capacity and allocatable of the Node's status.
    """

    name: str = ""
    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)
    scorer: ResourceScorer = field(default_factory=dict)
    kube_cap: ResourceList = field(default_factory=dict)
    kube_alloc: ResourceList = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass
class ContainerInfo:
    """One container's requests and the devices allocated to it.

    The user writes `requests` and `scorer`. The scheduler writes `dev_requests`, which are the requests translated for
    the chosen node, and `allocate_from`, the node's resource that serves each of them. `kube_requests` are the extended
    resources in the container's own `resources`.
    """

    requests: ResourceList = field(default_factory=dict)
    dev_requests: ResourceList = field(default_factory=dict)
    allocate_from: ResourceLocation = field(default_factory=dict)
    scorer: ResourceScorer = field(default_factory=dict)
    kube_requests: ResourceList = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass
class PodInfo:
    """The requests of one pod; `node_name` is the node for which its devices were chosen."""

    name: str = ""
    node_name: str = ""
    requests: ResourceList = field(default_factory=dict)
    init_containers: dict[str, ContainerInfo] = field(default_factory=dict)
    running_containers: dict[str, ContainerInfo] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


def without_unknown(pod: PodInfo) -> PodInfo:
    """Return a pod without the keys that this version does not know."""
    return with_unknown_of(PodInfo(), pod)


def with_unknown_of(source: PodInfo, pod: PodInfo) -> PodInfo:
    """Return a pod whose unknown keys, including those of its containers, are replaced by those of `source`."""

    def containers(own: dict[str, ContainerInfo], theirs: dict[str, ContainerInfo]) -> dict[str, ContainerInfo]:
        nothing = ContainerInfo()
        return {name: replace(each, unknown=theirs.get(name, nothing).unknown) for name, each in own.items()}

    return replace(
        pod,
        unknown=source.unknown,
        init_containers=containers(pod.init_containers, source.init_containers),
        running_containers=containers(pod.running_containers, source.running_containers),
    )


def copy_node(node: NodeInfo) -> NodeInfo:
    """Return a copy that shares nothing mutable but the values of unknown keys."""
    return NodeInfo(
        node.name,
        dict(node.capacity),
        dict(node.allocatable),
        dict(node.used),
        dict(node.scorer),
        dict(node.kube_cap),
        dict(node.kube_alloc),
        dict(node.unknown),
    )


def copy_container(container: ContainerInfo) -> ContainerInfo:
    """Return a copy that shares nothing mutable but the values of unknown keys."""
    return ContainerInfo(
        dict(container.requests),
        dict(container.dev_requests),
        dict(container.allocate_from),
        dict(container.scorer),
        dict(container.kube_requests),
        dict(container.unknown),
    )


def copy_pod(pod: PodInfo) -> PodInfo:
    """Return a copy that shares nothing mutable but the values of unknown keys."""
    return PodInfo(
        pod.name,
        pod.node_name,
        dict(pod.requests),
        {name: copy_container(each) for name, each in pod.init_containers.items()},
        {name: copy_container(each) for name, each in pod.running_containers.items()},
        dict(pod.unknown),
    )


def requests_devices(pod: PodInfo) -> bool:
    """Return whether the pod or one of its containers requests anything; a request of 0 asks for nothing."""
    containers = (*pod.running_containers.values(), *pod.init_containers.values())
    return any(pod.requests.values()) or any(any(each.requests.values()) for each in containers)


def is_group_resource(name: str) -> bool:
    """Return whether a resource belongs to the tree of groups that the group scheduler allocates."""
    return name.startswith(GROUP_PREFIX)
