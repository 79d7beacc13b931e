"""Finds the devices of one container in a node's tree of groups: pure functions, with a budget of steps.

All leaves of a required group must be available in one place of the node's group of that name. The groups required
below it are then placed within that place, in sorted order. All places are tried in sorted order. Places that the pod
already uses come first; among the others the best score wins, and a later equal score replaces an earlier one. The
score of a place is the mean over all its leaves, requested or not. Of equal places, only one is searched (see
`pod_places`).

A container that requests `gpugrp0/A/gpu/a/cards` and `gpugrp0/A/gpu/b/cards`, on a node with the groups `gpugrp0/0`
(cards 0 and 1) and `gpugrp0/1` (cards 2 and 3):

    group A in gpugrp0/1       equal to gpugrp0/0, which is not searched
        card a in gpu/3        equal to gpu/2, which is not searched; the later one wins
        card b in gpu/3, gpu/2 no longer equal, so both are searched; only gpu/2 is free
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.devices.groups import Place, number_kinds, place_tree
from controller.devices.pod_places import PlaceOutcome, PodPlaces
from controller.devices.refusal_reasons import Reason, SearchTooLong, Shortage
from controller.devices.scorers import ScoredUse, Scorer, scorer_of
from shared.devices.info import GROUP_PREFIX, ContainerInfo, is_group_resource

MAX_STEPS = 100_000  # per pod and node: a few tenths of a second
_COMPARISONS_PER_STEP = 8  # of places and leaves, to find equal ones
_MARKS_PER_STEP = 4  # of places as used, without a search


@dataclass
class PodUse:
    """A pod's use of a node's resources so far, and the steps left for its search."""

    resources: dict[str, int] = field(default_factory=dict)
    steps: int = MAX_STEPS


@dataclass(frozen=True, slots=True)
class Allocation:
    """The leaves that a container gets, the pod's use including them, and the score of the place."""

    resources: Mapping[str, int]
    allocate_from: Mapping[str, str]
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Equal places, numbered within their group, and the outcome of placing a required group in any of them.

    `result` has the details if the last of the places was searched for this candidate. It is None if the outcome was
    already known.
    """

    equal: Sequence[tuple[int, Place]]
    is_used: bool
    outcome: PlaceOutcome
    result: tuple[Allocation | None, list[Shortage]] | None = None

    @property
    def preference(self) -> tuple[bool, bool, float, int]:
        """Return a key that is highest for the best candidate or, if none fits, for the one that comes closest."""
        if self.outcome.score is None:
            return False, False, -self.outcome.shortages, -self.equal[0][0]
        return True, self.is_used, self.outcome.score, self.equal[-1][0]


class _OutOfSteps(Exception):
    """The search has used up its budget of steps."""


def allocate(
    name: str, container: ContainerInfo, places: PodPlaces, use: PodUse, *, init: bool
) -> Allocation | tuple[Reason, ...]:
    """Return the allocation for a container's `dev_requests`, or the reasons why there is none.

    If `allocate_from` is already filled, it is only checked and scored. `places` and `use.steps` are updated,
    `use.resources` is not.
    """
    search = _Search(name, container, places, use, init=init)
    before = Allocation(use.resources, {})
    try:
        if container.allocate_from:
            return search.check(before)
        found, shortages = search.allocate(search.required, {"": places.node.root}, before)
    except _OutOfSteps:
        return (SearchTooLong(name, MAX_STEPS),)
    return found or tuple(dict.fromkeys(shortages))


class _Search:
    def __init__(self, name: str, container: ContainerInfo, places: PodPlaces, use: PodUse, *, init: bool) -> None:
        self._name, self._container, self._places, self._use, self._init = name, container, places, use, init
        self._node = places.node
        self._requests = {key: value for key, value in container.dev_requests.items() if is_group_resource(key)}
        self._scorers = {key: scorer for key in self._requests if (scorer := self._own_scorer(key))}
        self.required = place_tree(self._requests)
        number_kinds(self.required, self._kind_of, places.required_kinds)

    def allocate(
        self, required: Place, places: Mapping[str, Place], before: Allocation
    ) -> tuple[Allocation | None, list[Shortage]]:
        """Return the best allocation of a required group, or the shortages in the place that comes closest."""
        if not places:
            return None, [self._shortage(each, "", before) for each in required.names]
        candidates = [self._candidate(required, state, equal, before) for state, equal in self._equal(places, before)]
        chosen = max(candidates, key=lambda each: each.preference)
        for each in candidates:
            not_searched = each.equal[:-1] if each is chosen or each.result else each.equal
            self._spend(len(not_searched) * len(each.outcome.used) // _MARKS_PER_STEP)
            for _, place in not_searched:
                self._places.repeat_use(each.outcome, place)
        place = chosen.equal[-1][1]
        found, shortages = chosen.result or self._allocate_at(place, required, before)
        if found is not None:
            self._places.mark_used(place)
        return found, shortages

    def _equal(self, places: Mapping[str, Place], before: Allocation) -> Iterable[tuple[int, list[tuple[int, Place]]]]:
        """Return each state of the places in a group, with the places in that state and their numbers."""
        found: defaultdict[int, list[tuple[int, Place]]] = defaultdict(list)
        compared_before = self._places.comparisons
        for number, place in enumerate(places.values()):
            found[self._places.state(place, before.resources)].append((number, place))
        self._spend((self._places.comparisons - compared_before + len(places)) // _COMPARISONS_PER_STEP)
        return found.items()

    def _candidate(
        self, required: Place, state: int, equal: Sequence[tuple[int, Place]], before: Allocation
    ) -> _Candidate:
        """Search the last of equal places, unless the outcome for their state is known."""
        place, key = equal[-1][1], (required.kind, self._init, state)
        is_used, known = self._places.is_used(place), self._places.outcomes.get(key)
        if known is not None:
            return _Candidate(equal, is_used, known)
        count = self._places.used_count()
        found, shortages = result = self._allocate_at(place, required, before)
        used = self._places.used_since(count, place)
        outcome = PlaceOutcome(found.score if found is not None else None, len(shortages), used)
        self._places.outcomes[key] = outcome
        return _Candidate(equal, is_used, outcome, result)

    def _kind_of(self, request: str) -> Hashable:
        return self._requests[request], self._scorers.get(request)

    def check(self, before: Allocation) -> Allocation | tuple[Reason, ...]:
        """Check and score the allocation that the container already has."""
        missing = [
            Shortage(self._name, each, self._requests[each], 0, 0)
            for each in self.required.names
            if self._container.allocate_from.get(each) not in self._node.allocatable
        ]
        if missing:
            return tuple(missing)
        self._places.mark_requested(self._container.allocate_from[each] for each in self.required.names)
        found, shortages = self._score(self._node.root, self.required, before, self._container.allocate_from)
        return found or tuple(shortages)

    def _allocate_at(
        self, place: Place, required: Place, before: Allocation
    ) -> tuple[Allocation | None, list[Shortage]]:
        self._spend(1 + len(required.leaves) + len(before.resources) // 16)  # copying costs a little, too
        after, shortages = self._allocate_leaves(place, required, before)
        # Groups are placed even where leaves are missing, as in KubeDevice: their best places count as used.
        for group, needed in required.groups.items():
            for each in needed.values():
                found, missing = self.allocate(each, place.groups.get(group, {}), after)
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
        self._places.mark_requested(
            allocate_from[request] for request in required.leaves.values() if request in allocate_from
        )
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
        """Return the use of a leaf after requests, by the node's scorer and then by the container's if it names one."""
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
