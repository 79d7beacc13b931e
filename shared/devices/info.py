"""What a node offers, and what the containers of a pod request and got: plain data and pure functions on it.

The attributes correspond to the JSON of the annotation `KubeDevice/DeviceInfo` (`shared.devices.annotation`). Those
that begin with `kube_` come from the Node or the Pod itself and are never in the JSON. `unknown` has the keys of the
JSON that this version does not know; they are written back as they were read.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

GROUP_PREFIX = "resource/group/"

ResourceList: TypeAlias = dict[str, int]
ResourceLocation: TypeAlias = dict[str, str]
ResourceScorer: TypeAlias = dict[str, int]


@dataclass
class NodeInfo:
    """The devices of one node.

    `allocatable` is the capacity without what is reserved, `used` what pods use of it. `scorer` names the scoring
    function of a resource by number (`controller.devices.scorers`). `kube_cap` and `kube_alloc` are the whole numbers
    in the capacity and allocatable of the Node's status.
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
    """What one container requests, and the devices that it got.

    `requests` and `scorer` are the user's. `dev_requests` are the requests in the terms of the chosen node, and
    `allocate_from` is the resource of the node that serves each of them; both are the scheduler's. `kube_requests` are
    the extended resources in the container's own requests.
    """

    requests: ResourceList = field(default_factory=dict)
    dev_requests: ResourceList = field(default_factory=dict)
    allocate_from: ResourceLocation = field(default_factory=dict)
    scorer: ResourceScorer = field(default_factory=dict)
    kube_requests: ResourceList = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass
class PodInfo:
    """What the containers of one pod request; `node_name` is the node for which their devices were chosen."""

    name: str = ""
    node_name: str = ""
    requests: ResourceList = field(default_factory=dict)
    init_containers: dict[str, ContainerInfo] = field(default_factory=dict)
    running_containers: dict[str, ContainerInfo] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


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
    """Return whether the pod or one of its containers requests anything."""
    containers = (*pod.running_containers.values(), *pod.init_containers.values())
    return bool(pod.requests) or any(container.requests for container in containers)


def is_group_resource(name: str) -> bool:
    """Return whether a resource belongs to a tree of groups, which the group scheduler allocates."""
    return name.startswith(GROUP_PREFIX)
