"""Groups the places of a node that are equal for a pod, so that only one of them is searched; no input or output.

Two places are equal if they differ only in the names of places: they offer the same, other pods use the same in them,
and so does this pod. Without this, a request for 8 cards would search each of a node's 1,024 cards 8 times.

Each place has a state, a number that only equal places share. The states on a node with 2 groups of 2 cards:

    place            at first    once card 3 is used
    gpugrp0/0        1           1
        gpu/0        0           0
        gpu/1        0           0
    gpugrp0/1        1           -2
        gpu/2        0           0
        gpu/3        0           -1

At first, all cards are equal, and so are both groups. A request for 2 cards in one group is therefore searched in
gpugrp0/1 alone. There it takes card 3, then card 2. Because a search in gpugrp0/0 would have used cards 1 and 0, these
count as used too, without a search.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from controller.devices.groups import Place, number_kinds, place_tree
from controller.devices.scorers import scorer_of
from shared.devices.info import NodeInfo, is_group_resource


class NodeDevices:
    """The group resources of one node, prepared once for any number of pods."""

    def __init__(self, node: NodeInfo) -> None:
        self.allocatable = {name: value for name, value in node.allocatable.items() if is_group_resource(name)}
        self.used = {name: value for name, value in node.used.items() if name in self.allocatable}
        self.scorers = {name: scorer_of(name, node.scorer.get(name, 0)) for name in self.allocatable}
        self.root = place_tree(self.allocatable)
        number_kinds(self.root, lambda name: (self.allocatable[name], self.used.get(name), self.scorers[name]), {})
        self.by_path = {place.path: place for place in self.root.walk()}
        self.by_resource = {name: place for place in self.by_path.values() for name in place.leaves.values()}


@dataclass(frozen=True, slots=True)
class PlaceOutcome:
    """The result of placing a required group in a place, which is the same for all equal places.

    Attributes:
        score: The score; None if the group does not fit.
        shortages: How many resources are missing.
        used: The places that the search marked as used, by their paths from the place that was searched.

    """

    score: float | None
    shortages: int
    used: tuple[str, ...]


class PodPlaces:
    """The places of a node that a pod uses, the states of places, and the outcomes of the search so far.

    Attributes:
        node: The node.
        outcomes: By kind of the required group, kind of container, and state of the place.
        required_kinds: The numbers of the kinds of required groups, for `number_kinds`.
        comparisons: How many places and leaves were compared to compute states.

    """

    def __init__(self, node: NodeDevices) -> None:
        self.node = node
        self.outcomes: dict[Hashable, PlaceOutcome] = {}
        self.required_kinds: dict[Hashable, int] = {}
        self.comparisons = 0
        # All places below are given by their paths.
        self._used: set[str] = set()
        self._used_in_order: list[str] = []
        self._requested: set[str] = set()  # with a resource that the search has requested, at any depth
        self._changed: set[str] = set()  # used or requested, at any depth; the state of all others is their kind
        self._states: dict[str, int] = {}  # known states, until the place changes again
        self._numbers: dict[Hashable, int] = {}  # negative, by everything that makes places equal

    def is_used(self, place: Place) -> bool:
        """Return whether the pod uses a place."""
        return place.path in self._used

    def mark_used(self, place: Place) -> None:
        """Count a place as used."""
        if place.path not in self._used:
            self._used.add(place.path)
            self._used_in_order.append(place.path)
            self._mark_changed(place)

    def mark_requested(self, names: Iterable[str]) -> None:
        """Record that the pod's use of these resources now differs between branches of the search."""
        for name in names:
            place = self.node.by_resource[name]
            if place.path not in self._requested:
                self._requested.update(place.paths_from_root)
                self._mark_changed(place)

    def state(self, place: Place, resources: Mapping[str, int]) -> int:
        """Return a number that only equal places share, given the pod's use of resources in this branch."""
        if place.path not in self._changed:
            return place.kind
        if place.path in self._states:
            return self._states[place.path]
        used = tuple(resources.get(name, 0) for name in place.leaves.values())
        below = tuple(self.state(each, resources) for places in place.groups.values() for each in places.values())
        self.comparisons += 4 + len(used) + len(below)
        if self.is_used(place) or any(used) or any(each < 0 for each in below):
            key = (place.kind, self.is_used(place), used, below)
            state = self._numbers.setdefault(key, -1 - len(self._numbers))
        else:
            state = place.kind
        if place.path not in self._requested:  # otherwise, another branch may use other resources of the place
            self._states[place.path] = state
        return state

    def used_count(self) -> int:
        """Return the number of used places, for `used_since`."""
        return len(self._used)

    def used_since(self, count: int, place: Place) -> tuple[str, ...]:
        """Return the places that were marked after the first `count`, all inside `place`, by their paths from it."""
        return tuple(path.removeprefix(place.path) for path in self._used_in_order[count:])

    def repeat_use(self, outcome: PlaceOutcome, place: Place) -> None:
        """Mark the places as used that the search behind `outcome` would have marked in this equal place."""
        for path in outcome.used:
            self.mark_used(self.node.by_path[place.path + path])

    def _mark_changed(self, place: Place) -> None:
        self._changed.update(place.paths_from_root)
        for path in place.paths_from_root:
            self._states.pop(path, None)
