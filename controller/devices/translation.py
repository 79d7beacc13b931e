"""Translates requests to the levels that a node has: plain functions of names.

A node may group its cards more deeply than a request does. The request is then lifted: on a node with
`gpugrp0/<place>/gpu/...`, the request `gpu/0/cards` becomes `gpugrp0/0/gpu/0/cards`, and likewise for `gpugrp1` over
`gpugrp0`. Before that, a number of cards (`nvidia.com/gpu: 2`) becomes `gpu/0/cards` and `gpu/1/cards`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from shared.devices.info import GROUP_PREFIX, ContainerInfo, NodeInfo

CARDS = "nvidia.com/gpu"
MAX_CARDS = 1024  # at most this many are taken from the status of a Node
Levels: TypeAlias = tuple[tuple[str, str], ...]  # an upper level and the one below it
_LEVELS: Levels = (("gpugrp0", "gpu"), ("gpugrp1", "gpugrp0"))
_DEEPEST = [f"{GROUP_PREFIX}gpugrp1/0/gpugrp0/0/gpu/0/cards"]


def lift_all(requests: Mapping[str, int], offered: Iterable[str]) -> dict[str, int]:
    """Lift requests to the levels of the resources that a node offers.

    >>> lift_all({"resource/group/gpu/a/cards": 1}, ["resource/group/gpugrp0/7/gpu/3/cards"])
    {'resource/group/gpugrp0/0/gpu/a/cards': 1}
    """
    return lift_to(requests, levels_of(offered))


def levels_of(offered: Iterable[str]) -> Levels:
    """Return the pairs of levels that a node's resources have, upper and lower."""
    names = list(offered)
    return tuple(
        (upper, lower) for upper, lower in _LEVELS if any(_place(name, upper, lower) is not None for name in names)
    )


def lift_to(requests: Mapping[str, int], levels: Levels) -> dict[str, int]:
    """Lift requests to these levels."""
    lifted = dict(requests)
    for upper, lower in levels:
        lifted = _lift(lifted, upper, lower)
    return lifted


def _lift(requests: Mapping[str, int], upper: str, lower: str) -> dict[str, int]:
    """Insert a level above another. Requests for the same lower place share a new one, numbered after those in use."""
    used = [int(place) for name in requests if (place := _place(name, upper, lower) or "").isdecimal()]
    following = max(used, default=-1) + 1
    places: dict[str, str] = {}
    lifted: dict[str, int] = {}
    for name in sorted(requests):
        before, found, after = name.partition(f"/{lower}/")
        if found and "/" in after and _place(name, upper, lower) is None:
            place = places.setdefault(after.partition("/")[0], str(following + len(places)))
            lifted[f"{before}/{upper}/{place}/{lower}/{after}"] = requests[name]
        else:
            lifted[name] = requests[name]
    return lifted


def _place(name: str, upper: str, lower: str) -> str | None:
    """Return the place in the upper level, if that is directly above the lower one."""
    parts = name.split("/")
    for i in range(len(parts) - 3, 0, -1):
        if parts[i] == upper and parts[i + 2] == lower:
            return parts[i + 1]
    return None


def cards(names: Iterable[str]) -> list[str]:
    """Return the names that denote a single card: those with `gpu/<card>/cards`."""
    return [name for name in names if name.startswith(GROUP_PREFIX) and _place(name, "gpu", "cards") is not None]


def card_count(container: ContainerInfo) -> int:
    """Return the number of cards that a container requests, in the annotation or in its resources."""
    return max(container.requests.get(CARDS, 0), container.kube_requests.get(CARDS, 0))


def add_cards(requests: Mapping[str, int], count: int) -> dict[str, int]:
    """Add requests for single cards until there are `count`."""
    have = cards(requests)
    numbers = [int(card) for name in have if (card := _place(name, "gpu", "cards") or "").isdecimal()]
    following = max(numbers, default=-1) + 1
    added = range(following, following + count - len(have))
    return dict(requests) | {f"{GROUP_PREFIX}gpu/{number}/cards": 1 for number in added}


def fill_from_kube(node: NodeInfo) -> None:
    """Add to a node's allocatable the cards that only the Node's status lists, each in a group of its own."""
    count = min(node.kube_alloc.get(CARDS, 0), MAX_CARDS)
    if count > len(cards(node.allocatable)):
        node.allocatable = lift_all(add_cards(node.allocatable, count), _DEEPEST)
