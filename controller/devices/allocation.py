"""Finds the devices of one container in a node's tree of groups: pure functions, with a budget of steps.

All leaves of a required group must be available in one place of the node's group of that name. The groups required
below it are then placed within that place, in sorted order. All places are tried in sorted order. Places that the pod
already uses come first; among the others the best score wins, and a later equal score replaces an earlier one. The
score of a place is the mean over all its leaves, requested or not.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.devices.groups import Place, place_tree
from controller.devices.scorers import ScoredUse, Scorer, scorer_of
from controller.devices.shortage import Reason, SearchTooLong, Shortage
from shared.devices.info import GROUP_PREFIX, ContainerInfo, NodeInfo, is_group_resource

MAX_STEPS = 100_000  # per pod and node: a few tenths of a second


class NodeDevices:
    """The group resources of one node, prepared once for any number of pods."""

    def __init__(self, node: NodeInfo) -> None:
        self.allocatable = {name: value for name, value in node.allocatable.items() if is_group_resource(name)}
        self.used = {name: value for name, value in node.used.items() if name in self.allocatable}
        self.scorers = {name: scorer_of(name, node.scorer.get(name, 0)) for name in self.allocatable}
        self.root = place_tree(self.allocatable)


@dataclass
class PodUse:
    """A pod's use of a node so far: resources, places, and the steps left for its search."""

    resources: dict[str, int] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    steps: int = MAX_STEPS


@dataclass(frozen=True, slots=True)
class Allocation:
    """The leaves that a container gets, the pod's use including them, and the score of the place."""

    resources: Mapping[str, int]
    allocate_from: Mapping[str, str]
    score: float = 0.0


class _OutOfSteps(Exception):
    """Ends the search."""


def allocate(
    name: str, container: ContainerInfo, node: NodeDevices, use: PodUse, *, init: bool
) -> Allocation | tuple[Reason, ...]:
    """Return the allocation for a container's `dev_requests`, or the reasons why there is none.

    If `allocate_from` is already filled, it is only checked and scored. `use.places` and `use.steps` are updated,
    `use.resources` is not.
    """
    search = _Search(name, container, node, use, init=init)
    before = Allocation(use.resources, {})
    try:
        if container.allocate_from:
            return search.check(before)
        found, shortages = search.allocate(search.required, {"": node.root}, before)
    except _OutOfSteps:
        return (SearchTooLong(name, MAX_STEPS),)
    return found or tuple(dict.fromkeys(shortages))


class _Search:
    def __init__(self, name: str, container: ContainerInfo, node: NodeDevices, use: PodUse, *, init: bool) -> None:
        self._name, self._container, self._node, self._use, self._init = name, container, node, use, init
        self._requests = {key: value for key, value in container.dev_requests.items() if is_group_resource(key)}
        self._scorers = {key: scorer for key in self._requests if (scorer := self._own_scorer(key))}
        self.required = place_tree(self._requests)

    def allocate(
        self, required: Place, places: Mapping[str, Place], before: Allocation
    ) -> tuple[Allocation | None, list[Shortage]]:
        """Return the best allocation of a required group, or what is missing in the place that comes closest."""
        best: Allocation | None = None
        best_path, best_is_used = "", False
        closest: list[Shortage] | None = None
        for index in sorted(places):
            place = places[index]
            found, shortages = self._allocate_at(place, required, before)
            is_used = place.path in self._use.places
            if found is None:
                closest = shortages if closest is None or len(shortages) < len(closest) else closest
            elif (
                best is None
                or (is_used and not best_is_used)
                or (is_used == best_is_used and found.score >= best.score)
            ):
                best, best_path, best_is_used = found, place.path, is_used
        if best is not None:
            self._use.places.add(best_path)
            return best, []
        return None, closest if closest is not None else [self._shortage(each, "", before) for each in required.names]

    def check(self, before: Allocation) -> Allocation | tuple[Reason, ...]:
        """Score the allocation that the container already has."""
        missing = [
            Shortage(self._name, each, self._requests[each], 0, 0)
            for each in self.required.names
            if self._container.allocate_from.get(each) not in self._node.allocatable
        ]
        if missing:
            return tuple(missing)
        found, shortages = self._score(self._node.root, self.required, before, self._container.allocate_from)
        return found or tuple(shortages)

    def _allocate_at(
        self, place: Place, required: Place, before: Allocation
    ) -> tuple[Allocation | None, list[Shortage]]:
        self._spend(1 + len(required.leaves) + len(before.resources) // 16)  # copying costs a little, too
        after, shortages = self._allocate_leaves(place, required, before)
        # Groups are placed even where leaves are missing, as in KubeDevice: their best places count as used.
        for group in sorted(required.groups):
            for index in sorted(required.groups[group]):
                found, missing = self.allocate(required.groups[group][index], place.groups.get(group, {}), after)
                after = found or after
                self._spend(len(missing))
                shortages += missing
        if shortages:
            return None, shortages
        return self._score(place, required, before, after.allocate_from)

    def _allocate_leaves(self, place: Place, required: Place, before: Allocation) -> tuple[Allocation, list[Shortage]]:
        resources, allocate_from = dict(before.resources), dict(before.allocate_from)
        shortages = []
        for leaf, request in required.leaves.items():
            name = place.leaves.get(leaf, "")
            used = self._after(name, (request,), resources) if name else None
            if used is None:
                shortages.append(self._shortage(request, name, Allocation(resources, {})))
            else:
                resources[name], allocate_from[request] = used, name
        return Allocation(resources, allocate_from), shortages

    def _after(self, name: str, requests: tuple[str, ...], resources: Mapping[str, int]) -> int | None:
        """Return the pod's use of a leaf after requests, or None if they do not fit."""
        scored = self._scored(name, requests, resources)
        return scored[0].used_by_pod if all(each.fits for each in scored) else None

    def _score(
        self, place: Place, required: Place, before: Allocation, allocate_from: Mapping[str, str]
    ) -> tuple[Allocation | None, list[Shortage]]:
        """Score a place with all requests of the group applied, summed per leaf."""
        self._spend(len(place.names) + len(required.names))
        requests: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for each in required.names:
            requests[allocate_from[each]] += (each,)
        resources, total, shortages = dict(before.resources), 0.0, []
        for name in place.names:
            requested = requests.get(name, ())
            total += self._scored(name, requested, before.resources)[-1].score
            if requested and (used := self._after(name, requested, before.resources)) is not None:
                resources[name] = used
            elif requested:
                shortages.append(self._shortage(requested[0], name, before))
        if shortages:
            return None, shortages
        return Allocation(resources, allocate_from, total / len(place.names)), []

    def _scored(self, name: str, requests: tuple[str, ...], resources: Mapping[str, int]) -> list[ScoredUse]:
        """Return a leaf after requests: counted by the node's scorer, scored by the container's if it names one."""
        by_pod, by_node = resources.get(name, 0), self._node.used.get(name, 0)
        values = [self._requests[each] for each in requests]
        scorers = [self._node.scorers[name], *(self._scorers[each] for each in requests[:1] if each in self._scorers)]
        allocatable = self._node.allocatable[name]
        return [scorer(allocatable, by_pod, by_node + by_pod, values, init=self._init) for scorer in scorers]

    def _shortage(self, request: str, name: str, before: Allocation) -> Shortage:
        used = self._node.used.get(name, 0) + before.resources.get(name, 0)
        return Shortage(self._name, request, self._requests[request], used, self._node.allocatable.get(name, 0))

    def _own_scorer(self, request: str) -> Scorer | None:
        """Return the scorer that the container names for a request, under its translated or original name."""
        numbers = self._container.scorer
        if not numbers:
            return None
        if request in numbers:
            return scorer_of(request, numbers[request])
        parts = request.split("/")
        named = {GROUP_PREFIX + "/".join(parts[i:]) for i in range(1, len(parts))} & numbers.keys()
        return scorer_of(request, numbers[min(named)]) if named else None

    def _spend(self, steps: int) -> None:
        self._use.steps -= steps
        if self._use.steps < 0:
            raise _OutOfSteps
