"""Requests that follow the best tree of cards in the cluster: pure functions.

A pod with `gpu/gpu-generate-topology: 1` gets cards that are grouped as closely as on the best node of the cluster.
Among the trees of all nodes with enough cards, the one with the most cards per group wins. The requests then ask for
the cards of its largest groups first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.devices.info import GROUP_PREFIX

TOPOLOGY = "gpu/gpu-generate-topology"
_LEVELS = ("gpugrp1", "gpugrp0")


@dataclass(frozen=True, slots=True, order=True)
class CardTree:
    """How a node's cards are grouped, in two levels; the largest groups come first."""

    cards: int = 0
    groups: "tuple[CardTree, ...]" = ()

    def score(self, depth: int = 0, siblings: int = 1) -> float:
        """Return the mean number of cards per group, where deeper groups count more."""
        below = sum(group.score(depth + 1, len(self.groups)) for group in self.groups)
        return self.cards * depth / siblings + below


def card_tree(names: Iterable[str]) -> CardTree:
    """Return the tree of the resources whose names end in `cards`, by `gpugrp1` and `gpugrp0`."""
    return _tree([name for name in sorted(names) if name.endswith("/cards")], _LEVELS)


def _tree(names: list[str], levels: tuple[str, ...]) -> CardTree:
    if not levels:
        return CardTree(len(names))
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        _, found, rest = name.partition(f"/{levels[0]}/")
        if found:
            places[rest.partition("/")[0]].append(name)
    groups = [_tree(places[place], levels[1:]) for place in sorted(places)]
    return CardTree(
        sum(map(len, places.values())) if len(levels) == len(_LEVELS) else len(names),
        tuple(sorted(groups, key=lambda group: (-group.cards, -group.score()))),
    )


def best_tree(trees: Iterable[CardTree], count: int) -> CardTree | None:
    """Return the tree with the highest score among those with enough cards."""
    fitting = sorted((tree for tree in set(trees) if tree.cards >= count and tree.score() > 0), reverse=True)
    return max(fitting, key=CardTree.score, default=None)


def follow_tree(requests: Mapping[str, int], tree: CardTree, count: int) -> dict[str, int]:
    """Return the requests with single cards replaced by `count` cards of a tree.

    >>> tree = CardTree(3, (CardTree(3, (CardTree(2), CardTree(1))),))
    >>> [name.removeprefix("resource/group/") for name in follow_tree({}, tree, 3)]
    ['gpugrp1/0/gpugrp0/0/gpu/0/cards', 'gpugrp1/0/gpugrp0/0/gpu/1/cards', 'gpugrp1/0/gpugrp0/1/gpu/0/cards']
    """
    followed = {name: value for name, value in requests.items() if "/gpu/" not in name}
    left = count
    for i, upper in enumerate(tree.groups):
        for j, lower in enumerate(upper.groups):
            taken = min(left, lower.cards)
            left -= taken
            followed |= {f"{GROUP_PREFIX}gpugrp1/{i}/gpugrp0/{j}/gpu/{k}/cards": 1 for k in range(taken)}
    return followed
