"""Accounts for what pods use on a node, by updating `used` of its NodeInfo; no input or output."""

from collections import defaultdict
from collections.abc import Iterator

from controller.devices.scorers import Scorer, scorer_of
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo, is_group_resource


def pod_use(node: NodeInfo, pod: PodInfo) -> dict[str, int]:
    """Return a pod's use of each node resource, from `allocate_from` of its containers.

    The uses of running containers are added. Init containers run earlier, one at a time, so each counts only where its
    use exceeds that sum.
    """
    used: dict[str, int] = {}
    for init, container in _containers(pod):
        for name, values in _allocated(container).items():
            allocatable, by_pod = node.allocatable.get(name, 0), used.get(name, 0)
            used[name] = _scorer(node, name)(allocatable, by_pod, by_pod, values, init=init).used_by_pod
    return used


def take(node: NodeInfo, pod: PodInfo) -> None:
    """Add a pod's use to `used` of the node."""
    _add(node, pod, 1)


def give_back(node: NodeInfo, pod: PodInfo) -> None:
    """Subtract a pod's use from `used` of the node; never below zero."""
    _add(node, pod, -1)


def _add(node: NodeInfo, pod: PodInfo, sign: int) -> None:
    for name, value in pod_use(node, pod).items():
        allocatable, used = node.allocatable.get(name, 0), node.used.get(name, 0)
        scored = _scorer(node, name)(allocatable, 0, used, [sign * value], init=False)
        node.used[name] = max(0, scored.used_by_node)


def _scorer(node: NodeInfo, name: str) -> Scorer:
    return scorer_of(name, node.scorer.get(name, 0))


def _containers(pod: PodInfo) -> Iterator[tuple[bool, ContainerInfo]]:
    for name in sorted(pod.running_containers):
        yield False, pod.running_containers[name]
    for name in sorted(pod.init_containers):
        yield True, pod.init_containers[name]


def _allocated(container: ContainerInfo) -> dict[str, list[int]]:
    values: defaultdict[str, list[int]] = defaultdict(list)
    for request, name in sorted(container.allocate_from.items()):
        if is_group_resource(request):
            values[name].append(container.dev_requests.get(request, 0))
    return values
