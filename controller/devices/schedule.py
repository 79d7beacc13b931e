"""`schedule` chooses the node for a pod, and its devices there. A pure function."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.devices.chain import PluginChain
from controller.devices.group_scheduler import GroupScheduler
from controller.devices.plugin import DeviceFit, DeviceScheduler
from controller.devices.refusal_reasons import Reason
from shared.devices.annotation import node_info_from, pod_info_from
from shared.devices.info import (
    ContainerInfo,
    NodeInfo,
    PodInfo,
    ResourceList,
    ResourceScorer,
    copy_node,
    copy_pod,
)


@dataclass(frozen=True)
class DeviceDecision:
    """The node and the devices chosen for a pod.

    Attributes:
        node: The name of the best node; None if the pod fits on none.
        pod: The pod with `node_name`, `dev_requests` and `allocate_from` for that node; unchanged if there is none.
        scores: The score of each node, 0.0 where the pod does not fit.
        reasons: Why the pod does not fit, for each node where it does not.

    """

    node: str | None
    pod: PodInfo
    scores: Mapping[str, float]
    reasons: Mapping[str, tuple[Reason, ...]]


def schedule(
    node_infos: Iterable[NodeInfo | Mapping[str, Any]],
    pod_info: PodInfo | Mapping[str, Any],
    plugins: Sequence[DeviceScheduler] = (),
) -> DeviceDecision:
    """Choose the node with the best score for a pod's devices; among equals, the first by name.

    Dicts use the annotation's keys. No argument is modified. Raises InvalidDeviceInfo if a dict is not valid device
    information, and ValueError if two nodes have the same name.
    """
    nodes = _by_name(node_infos)
    pod = copy_pod(pod_info) if isinstance(pod_info, PodInfo) else pod_info_from(pod_info)
    chain = PluginChain(plugins, GroupScheduler())
    for node in nodes.values():
        chain.add_node(node)
    fits: dict[str, tuple[DeviceFit, PodInfo]] = {}
    seen: dict[Hashable, tuple[DeviceFit, PodInfo]] = {}
    for name, node in nodes.items():
        key = name if plugins else (offered_devices(node), pod.node_name == name)
        if key not in seen:
            candidate = pod_for(pod, name)
            seen[key] = chain.fit(node, candidate), candidate
        fits[name] = seen[key]
    scores = {name: fit.score for name, (fit, _) in fits.items()}
    reasons = {name: tuple(fit.reasons) for name, (fit, _) in fits.items() if not fit.fits}
    best = max((name for name in fits if name not in reasons), key=scores.__getitem__, default=None)
    if best is None:
        return DeviceDecision(None, pod, scores, reasons)
    decided = copy_pod(fits[best][1])
    decided.node_name = best
    return DeviceDecision(best, decided, scores, reasons)


def pod_for(pod: PodInfo, node_name: str) -> PodInfo:
    """Return a copy of a pod for evaluating a node, without an allocation for any other node."""
    copied = copy_pod(pod)
    for container in (*copied.running_containers.values(), *copied.init_containers.values()):
        if pod.node_name not in {"", node_name}:
            container.allocate_from, container.dev_requests = {}, {}
        _start_from_requests(container)
    return copied


def _start_from_requests(container: ContainerInfo) -> None:
    if not container.dev_requests:
        container.dev_requests = dict(container.requests)


def _by_name(node_infos: Iterable[NodeInfo | Mapping[str, Any]]) -> dict[str, NodeInfo]:
    nodes: dict[str, NodeInfo] = {}
    for each in node_infos:
        node = copy_node(each) if isinstance(each, NodeInfo) else node_info_from(each)
        if nodes.setdefault(node.name, node) is not node:
            raise ValueError(f"two nodes are named {node.name!r}; list each node once")
    return dict(sorted(nodes.items()))


def offered_devices(node: NodeInfo) -> Hashable:
    """Return a key for what the group scheduler sees of a node; nodes with equal keys are evaluated once."""
    return tuple(frozenset(each.items()) for each in seen_devices(node))


def seen_devices(node: NodeInfo) -> tuple[ResourceList, ResourceList, ResourceScorer]:
    """Return what the group scheduler sees of a node."""
    return node.allocatable, node.used, node.scorer
