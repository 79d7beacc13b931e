"""The best tree of cards in the cluster shapes the requests that ask for it."""

from controller.devices.topology import CardTree, best_tree, card_tree, follow_tree


def tree_of(*groups: tuple[int, ...]) -> CardTree:
    """Return the tree with these numbers of cards: one tuple per `gpugrp1`, one number per `gpugrp0`."""
    names = [
        f"resource/group/gpugrp1/{i}/gpugrp0/{j}/gpu/u{k}/cards"
        for i, group in enumerate(groups)
        for j, count in enumerate(group)
        for k in range(count)
    ]
    return card_tree([*names, "resource/group/gpugrp1/0/gpugrp0/0/gpu/u0/memory", "cpu"])


def asked(tree: CardTree, count: int) -> list[str]:
    return [
        name.removeprefix("resource/group/") for name in follow_tree({"resource/group/gpu/0/cards": 1}, tree, count)
    ]


def test_cards_are_requested_from_the_largest_groups_first() -> None:
    tree = tree_of((1,), (1, 3))
    assert tree == CardTree(5, (CardTree(4, (CardTree(3), CardTree(1))), CardTree(1, (CardTree(1),))))
    assert asked(tree, 4) == [
        "gpugrp1/0/gpugrp0/0/gpu/0/cards",
        "gpugrp1/0/gpugrp0/0/gpu/1/cards",
        "gpugrp1/0/gpugrp0/0/gpu/2/cards",
        "gpugrp1/0/gpugrp0/1/gpu/0/cards",
    ]


def test_the_tree_with_the_most_cards_per_group_wins_if_it_has_enough() -> None:
    wide, deep, small = tree_of((2, 2), (2, 2)), tree_of((4,), (2, 2)), tree_of((3,))
    assert (wide.score(), deep.score()) == (12.0, 16.0)
    assert best_tree([wide, deep, small], 3) == deep
    assert best_tree([wide, small], 4) == wide
    assert best_tree([wide, deep, small], 9) is None
    assert best_tree([card_tree(["resource/group/gpu/0/cards"])], 1) is None


def test_requests_for_other_devices_are_kept() -> None:
    kept = {"resource/group/tpu/0/chips": 1}
    assert follow_tree(kept | {"resource/group/gpu/0/memory": 5}, tree_of((1,)), 0) == kept
