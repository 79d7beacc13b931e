"""The tree of groups in the names of resources: plain functions of names.

`resource/group/gpugrp0/1/gpu/3/cards` is the leaf `cards` of place `3` of the group `gpu`, in place `1` of the group
`gpugrp0`. Once the rest of a name is too short for another group and place, it is a leaf, even if it has a slash.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.devices.info import GROUP_PREFIX, is_group_resource


@dataclass(slots=True)
class Place:
    """One place of a group: its leaves, the groups in it, and the names of all leaves at any depth."""

    path: str
    leaves: dict[str, str] = field(default_factory=dict)  # full names by name within this place
    groups: "dict[str, dict[str, Place]]" = field(default_factory=dict)  # by group and place
    names: list[str] = field(default_factory=list)


def place_tree(names: Iterable[str]) -> Place:
    """Return the root of the tree; names outside `resource/group` are ignored."""
    root = Place(GROUP_PREFIX.rstrip("/"))
    for name in sorted(names):
        if is_group_resource(name):
            _add(root, name)
    return root


def _add(root: Place, name: str) -> None:
    place, rest = root, name[len(GROUP_PREFIX) :]
    place.names.append(name)
    while rest.count("/") > 1:
        group, index, rest = rest.split("/", 2)
        places = place.groups.setdefault(group, {})
        place = places.setdefault(index, Place(f"{place.path}/{group}/{index}"))
        place.names.append(name)
    place.leaves[rest] = name
