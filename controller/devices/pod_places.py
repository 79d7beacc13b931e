"""Recognises places of a node in which a search for a pod must give the same result; no input or output.

On a node with 1,024 cards, a pod with 8 cards would otherwise be compared with each card 8 times. Places are equal if
they differ only in the names of places: in what they offer, in what others use, and in what the pod uses so far.
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
        self.by_rank = {place.rank: place for place in self.root.walk()}
        self.places = {name: place for place in self.by_rank.values() for name in place.leaves.values()}


@dataclass(frozen=True, slots=True)
class PlaceOutcome:
    """The result of placing a required group in a place, which is the same for all equal places.

    Attributes:
        score: The score; None if the group does not fit.
        shortages: How many resources are missing.
        used: The places that count as used since then, by their ranks within the place.

    """

    score: float | None
    shortages: int
    used: tuple[str, ...]


class PodPlaces:
    """The places of a node that a pod uses, and what its search has learned about equal places."""

    def __init__(self, node: NodeDevices) -> None:
        self.outcomes: dict[Hashable, PlaceOutcome] = {}
        self.required_kinds: dict[Hashable, int] = {}
        self.looked_at = 0  # places and leaves, to tell whether places are equal
        self.node = node
        self._used: set[str] = set()  # ranks
        self._order: list[str] = []  # the same, in the order in which they were added
        self._touched: set[str] = set()  # ranks of places that are used or tried, and of those around them
        self._tried: set[str] = set()  # ranks of places in which resources were tried, and of those around them
        self._states: dict[Hashable, int] = {}
        self._known: dict[str, int] = {}  # states by rank, until the place is touched again

    def is_used(self, place: Place) -> bool:
        """Return whether the pod uses a place."""
        return place.rank in self._used

    def use(self, place: Place) -> None:
        """Count a place as used."""
        if place.rank not in self._used:
            self._used.add(place.rank)
            self._order.append(place.rank)
            self._touch(place)

    def try_resources(self, names: Iterable[str]) -> None:
        """Note that the pod's use of these resources differs from now on, or in a part of the search."""
        for name in names:
            place = self.node.places[name]
            if place.rank not in self._tried:
                self._tried.update(place.around)
                self._touch(place)

    def state(self, place: Place, resources: Mapping[str, int]) -> int:
        """Return a number that equal places share, with the pod's use of resources."""
        if place.rank not in self._touched:
            return place.kind
        if place.rank in self._known:
            return self._known[place.rank]
        used = tuple(resources.get(name, 0) for name in place.leaves.values())
        below = tuple(self.state(each, resources) for places in place.groups.values() for each in places.values())
        self.looked_at += 4 + len(used) + len(below)
        if self.is_used(place) or any(used) or any(each < 0 for each in below):
            state = (place.kind, self.is_used(place), used, below)
            number = self._states.setdefault(state, -1 - len(self._states))
        else:
            number = place.kind
        if place.rank not in self._tried:
            self._known[place.rank] = number
        return number

    def used_now(self) -> int:
        """Return how many places are used."""
        return len(self._order)

    def used_since(self, count: int, place: Place) -> tuple[str, ...]:
        """Return the places within a place that are used since there were `count`, by their ranks within it."""
        return tuple(rank.removeprefix(place.rank) for rank in self._order[count:])

    def use_like(self, outcome: PlaceOutcome, place: Place) -> None:
        """Count the places as used that a search in this place, which is equal to another, would have used."""
        for rank in outcome.used:
            self.use(self.node.by_rank[place.rank + rank])

    def _touch(self, place: Place) -> None:
        self._touched.update(place.around)
        for rank in place.around:
            self._known.pop(rank, None)
