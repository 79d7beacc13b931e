"""The tree of groups in the names of resources: plain functions of names.

`resource/group/gpugrp0/1/gpu/3/cards` is the leaf `cards` of place `3` of the group `gpu`, in place `1` of the group
`gpugrp0`. Once the rest of a name is too short for another group and place, it is a leaf, even if it has a slash.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from shared.devices.info import GROUP_PREFIX, is_group_resource


@dataclass(slots=True)
class Place:
    """One place of a group: its leaves, the groups in it, and the names of all leaves at any depth, all in order.

    `path` leads here from the root, with places numbered from 0 within their group instead of named, as in
    `/gpugrp0/0/gpu/3`. `paths_from_root` has the paths of the root, of every place on the way, and of this place.
    Places of one `kind` differ only in the names of places.
    """

    path: str = ""
    paths_from_root: tuple[str, ...] = ("",)
    leaves: dict[str, str] = field(default_factory=dict)  # full names by name within this place
    groups: "dict[str, dict[str, Place]]" = field(default_factory=dict)  # by group and place
    names: list[str] = field(default_factory=list)
    kind: int = 0  # set by `number_kinds`

    def walk(self) -> "Iterator[Place]":
        """Yield all places in this one, each after those in it."""
        for places in self.groups.values():
            for place in places.values():
                yield from place.walk()
        yield self


def place_tree(names: Iterable[str]) -> Place:
    """Return the root of the tree; names outside `resource/group` are ignored."""
    root = Place()
    for parts in sorted(name.split("/") for name in names if is_group_resource(name)):
        _add(root, "/".join(parts))
    return root


def number_kinds(root: Place, kind_of: Callable[[str], Hashable], kinds: dict[Hashable, int]) -> None:
    """Set the kind of each place, so that equal places have equal kinds.

    Args:
        root: The tree.
        kind_of: Returns the properties of a resource, by its full name; resources with equal properties are equal.
        kinds: The numbers assigned so far, which are extended; trees that share them can be compared.
    """
    for place in root.walk():
        leaves = tuple((leaf, kind_of(name)) for leaf, name in place.leaves.items())
        groups = tuple(
            (group, tuple(below.kind for below in places.values())) for group, places in place.groups.items()
        )
        place.kind = kinds.setdefault((leaves, groups), len(kinds))


def _add(root: Place, name: str) -> None:
    place, rest = root, name[len(GROUP_PREFIX) :]
    place.names.append(name)
    while rest.count("/") > 1:
        group, index, rest = rest.split("/", 2)
        places = place.groups.setdefault(group, {})
        if index not in places:
            path = f"{place.path}/{group}/{len(places)}"
            places[index] = Place(path, (*place.paths_from_root, path))
        place = places[index]
        place.names.append(name)
    place.leaves[rest] = name
