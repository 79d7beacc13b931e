"""The group scheduler: translates, allocates and counts group resources; no input or output."""

from collections.abc import Mapping, Sequence

from controller.devices.accounting import give_back, take
from controller.devices.allocation import MAX_STEPS, Allocation, PodUse, allocate
from controller.devices.plugin import DeviceFit
from controller.devices.pod_places import NodeDevices, PodPlaces
from controller.devices.refusal_reasons import Reason, SearchTooLong, Shortage, UnsupportedRequest
from controller.devices.topology import TOPOLOGY, CardTree, best_tree, card_tree, follow_tree
from controller.devices.translation import CARDS, add_cards, card_count, cards, fill_from_kube, levels_of, lift_to
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo, is_group_resource

MAX_STEPS_IN_ALL = 2_000_000
_MAX_KNOWN = 1000  # cached best trees; bounded because users choose the card counts


class DoesNotFit(Exception):
    """The pod does not fit on the node, or no longer does."""

    def __init__(self, node_name: str, pod_name: str, reasons: Sequence[Reason]) -> None:
        super().__init__(f"pod {pod_name} does not fit on node {node_name}: {'; '.join(map(str, reasons))}")
        self.reasons = tuple(reasons)


class GroupScheduler:
    """The DeviceScheduler for all resources below `resource/group`.

    Args:
        steps: The total number of steps that this object's searches may take.

    """

    name = "group"
    using_group_scheduler = True

    def __init__(self, steps: int = MAX_STEPS_IN_ALL) -> None:
        self._steps = steps
        self._trees: dict[str, CardTree] = {}
        self._best: dict[int, CardTree | None] = {}  # by card count; cleared when a node changes

    def renew(self, steps: int) -> None:
        """Reset the budget of steps, for callers that reuse this object."""
        self._steps = steps

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Add the cards that only the node's status lists, and record the tree of its cards."""
        fill_from_kube(node_info)
        self._trees[node_name] = card_tree(node_info.allocatable)
        self._best.clear()

    def remove_node(self, node_name: str) -> None:
        """Forget a node."""
        self._trees.pop(node_name, None)
        self._best.clear()

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Translate the requests of a pod, and return whether the node can serve them.

        Running containers come first, then init containers, each sorted by name. The pod's score is the score of the
        last running container that requests devices, because it includes the use by all before it.
        """
        use, score = PodUse(steps=min(MAX_STEPS, self._steps)), 0.0
        before = use.steps
        reasons = self._translate(node_info, pod_info, use)
        if not reasons:
            reasons, score = _search(node_info, pod_info, use, fill_allocate_from=fill_allocate_from)
        self._steps -= before - max(use.steps, 0)
        return DeviceFit(not reasons, tuple(reasons), 0.0 if reasons else score)

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Fill `dev_requests` and `allocate_from`; raise DoesNotFit if the node cannot serve them (any more)."""
        fit = self.pod_fits_device(node_info, pod_info, fill_allocate_from=True)
        if not fit.fits:
            raise DoesNotFit(node_info.name, pod_info.name, fit.reasons)

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add a pod's use to `used` of a node."""
        take(node_info, pod_info)

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Subtract a pod's use from `used` of a node; never below zero."""
        give_back(node_info, pod_info)

    def _translate(self, node: NodeInfo, pod: PodInfo, use: PodUse) -> list[Reason]:
        reasons: list[Reason] = []
        offered, levels = cards(node.allocatable), levels_of(node.allocatable)
        total = _total_cards(pod)
        for name, container in (*pod.running_containers.items(), *pod.init_containers.items()):
            container.dev_requests = _without_zeros(container.dev_requests)
            count = card_count(container)
            if count > len(offered):  # refuse before generating one request per card
                used = sum(node.used.get(card, 0) for card in offered)
                reasons.append(Shortage(name, CARDS, count, used, len(offered)))
                continue
            use.steps -= (len(container.dev_requests) + count) * (2 + len(levels))  # about as long as translation takes
            if use.steps < 0:
                return [*reasons, SearchTooLong(name, MAX_STEPS)]
            wanted = pod.requests.get(TOPOLOGY, 0) or container.requests.get(TOPOLOGY, 0)
            if wanted and not container.allocate_from:
                reasons += self._follow_best_tree(name, container, wanted, total)
            container.dev_requests = lift_to(add_cards(container.dev_requests, count), levels)
        return reasons

    def _follow_best_tree(self, name: str, container: ContainerInfo, wanted: int, total: int) -> list[Reason]:
        if wanted != 1:
            return [UnsupportedRequest(name, TOPOLOGY, f"the value is {wanted}; 0 and 1 are supported")]
        tree = self._best_tree(total)
        if tree is None:
            return [UnsupportedRequest(name, TOPOLOGY, f"no node has {total} cards grouped by gpugrp1 and gpugrp0")]
        container.dev_requests = follow_tree(container.dev_requests, tree, card_count(container))
        return []

    def _best_tree(self, count: int) -> CardTree | None:
        """Return the best tree, cached because finding it takes a scan of all nodes."""
        if count not in self._best:
            if len(self._best) >= _MAX_KNOWN:
                self._best.clear()
            self._best[count] = best_tree(self._trees.values(), count)
        return self._best[count]


def _search(node_info: NodeInfo, pod: PodInfo, use: PodUse, *, fill_allocate_from: bool) -> tuple[list[Reason], float]:
    """Allocate the containers one after another; return the reasons why some do not fit, and the score."""
    places, reasons, score = PodPlaces(NodeDevices(node_info)), list[Reason](), 0.0
    for init, containers in ((False, pod.running_containers), (True, pod.init_containers)):
        for name in sorted(containers):
            if not any(map(is_group_resource, containers[name].dev_requests)):
                continue
            found = allocate(name, containers[name], places, use, init=init)
            if isinstance(found, Allocation):
                use.resources = dict(found.resources)
                score = score if init else found.score
                if fill_allocate_from:
                    containers[name].allocate_from = dict(found.allocate_from)
            else:
                reasons += found
                if use.steps < 0:
                    return reasons, 0.0
    return reasons, score


def _without_zeros(requests: Mapping[str, int]) -> dict[str, int]:
    """Return the requests without zeros: 0 would fit on a device in use and allocate that device to the container."""
    return {name: value for name, value in requests.items() if value or not is_group_resource(name)}


def _total_cards(pod: PodInfo) -> int:
    running = sum(card_count(each) for each in pod.running_containers.values())
    return max([running, *(card_count(each) for each in pod.init_containers.values())])
