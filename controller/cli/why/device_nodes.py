"""Determines which nodes could hold a pod that requests devices by annotation. No input or output, no clock."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from controller.cli.why.findings import Finding, Severity, fact, some, stop
from controller.cli.why.kinds import ObservedNode
from controller.cli.why.view import ClusterView
from controller.devices.refusal_reasons import Reason, first_of
from controller.devices.schedule import offered_devices, schedule
from controller.devices.translation import CARDS, MAX_CARDS, card_count
from controller.extender.advertised_devices import advertised_devices
from controller.extender.device_objects import DeviceNode, NodeResources
from shared.devices.annotation import ANNOTATION
from shared.devices.info import NodeInfo, PodInfo

_MAX_REASONS = 3  # shown for nodes that could not hold the pod
_MAX_TRANSLATIONS = 200_000  # requests of the pod times kinds of nodes: one or two seconds


def device_node_findings(requested: PodInfo, cluster: ClusterView) -> Iterator[Finding]:
    """Yield whether any node has devices, which annotations are unreadable, and which nodes could hold the pod."""
    if "nodes" in cluster.hidden:
        yield fact("nodes", "NotShown", "you may not list nodes, so it is unknown which of them have the devices")
        return
    advertised = [advertised_devices(_device_node(node)) for node in cluster.nodes]
    offering = [info for info, _ in advertised if info.allocatable or info.kube_alloc.get(CARDS)]
    answer = _fit(requested, offering)
    if unreadable := {info.name: problem for info, problem in advertised if problem}:
        yield _unreadable(unreadable, is_needed=answer.severity is Severity.STOP)
    yield answer


def _unreadable(problems: Mapping[str, str], *, is_needed: bool) -> Finding:
    """Report the nodes with an unreadable annotation; `is_needed`: no other node could hold the pod."""
    message = f"the devices of {some(problems)} do not count: {first_of(list(problems.values()))}"
    if not is_needed:
        return fact("nodes", "InvalidDeviceInfo", message)
    advice = "with devices.enabled, the node's agent replaces it; otherwise correct or remove it"
    return stop("nodes", "InvalidDeviceInfo", message, advice)


def _device_node(node: ObservedNode) -> DeviceNode:
    return DeviceNode(metadata=node.metadata, status=NodeResources(allocatable=node.status.allocatable))


def _fit(pod: PodInfo, offering: Sequence[NodeInfo]) -> Finding:
    """Report which nodes could hold a pod if no other pod used devices, or what is missing on the closest ones.

    Equal nodes are evaluated once. After a limit of translated requests, the remaining kinds of nodes are skipped.
    """
    if not offering:
        return stop(
            "nodes", "NoDevices", "no node advertises devices", "set devices.enabled in the chart; see docs/devices.md"
        )
    kinds = _kinds_of(offering)
    tried = kinds[: max(1, _MAX_TRANSLATIONS // _size_of(pod))]
    reasons = schedule([nodes[0] for nodes in tried], pod).reasons
    fitting = sorted(node.name for nodes in tried for node in nodes if nodes[0].name not in reasons)
    if fitting:
        return fact("nodes", "Fits", f"could hold the pod if no other pod used their devices: {some(fitting)}")
    checked = f"{sum(map(len, tried))} of {len(offering)} checked"
    return stop(
        "nodes", "NoNodeFits",
        f"no node could hold the pod, even if no other pod used devices ({checked}): {_closest(tried, reasons)}",
        f"request what a node advertises in its annotation {ANNOTATION}; see docs/devices.md",
    )  # fmt: skip


def _kinds_of(nodes: Sequence[NodeInfo]) -> list[list[NodeInfo]]:
    """Group the nodes that offer the same devices."""
    kinds: defaultdict[Hashable, list[NodeInfo]] = defaultdict(list)
    for node in nodes:
        kinds[offered_devices(node), node.kube_alloc.get(CARDS)].append(node)
    return list(kinds.values())


def _size_of(pod: PodInfo) -> int:
    """Return the number of requests to translate per node."""
    containers = (*pod.running_containers.values(), *pod.init_containers.values())
    return 1 + sum(len(each.requests) + min(card_count(each), MAX_CARDS) for each in containers)


def _closest(kinds: Sequence[Sequence[NodeInfo]], reasons: Mapping[str, Sequence[Reason]]) -> str:
    """Return what is missing on the nodes that come closest."""
    closest = sorted(kinds, key=lambda nodes: (len(reasons[nodes[0].name]), nodes[0].name))
    texts = [
        f"{some([node.name for node in nodes], 1)}: {first_of([str(each) for each in reasons[nodes[0].name]])}"
        for nodes in closest[:_MAX_REASONS]
    ]
    return "; ".join(texts)
