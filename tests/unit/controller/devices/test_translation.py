"""Requests are translated to the levels of the node, and card counts to single cards."""

import pytest

from controller.devices.translation import CARDS, MAX_CARDS, add_cards, cards, fill_from_kube, lift_all
from shared.devices.info import NodeInfo


def grouped(*names: str) -> dict[str, int]:
    return {f"resource/group/{name}": 1 for name in names}


ONE_LEVEL = grouped("gpu/u1/cards", "gpu/u2/cards")
TWO_LEVELS = grouped("gpugrp0/0/gpu/u1/cards")
THREE_LEVELS = grouped("gpugrp1/0/gpugrp0/0/gpu/u1/cards")


@pytest.mark.parametrize(
    ("offered", "requests", "expected"),
    [
        (ONE_LEVEL, grouped("gpu/0/cards"), grouped("gpu/0/cards")),
        (TWO_LEVELS, grouped("gpu/0/cards", "gpu/1/cards"), grouped("gpugrp0/0/gpu/0/cards", "gpugrp0/1/gpu/1/cards")),
        (
            TWO_LEVELS,
            grouped("gpu/a/cards", "gpu/a/memory"),
            grouped("gpugrp0/0/gpu/a/cards", "gpugrp0/0/gpu/a/memory"),
        ),
        (
            TWO_LEVELS,
            grouped("gpu/0/cards", "gpugrp0/4/gpu/1/cards", "gpugrp0/A/gpu/2/cards"),
            grouped("gpugrp0/5/gpu/0/cards", "gpugrp0/4/gpu/1/cards", "gpugrp0/A/gpu/2/cards"),
        ),
        (THREE_LEVELS, grouped("gpu/0/cards"), grouped("gpugrp1/0/gpugrp0/0/gpu/0/cards")),
        (
            THREE_LEVELS,
            grouped("gpugrp0/A/gpu/0/cards", "gpugrp0/A/gpu/1/cards", "gpugrp0/B/gpu/0/cards"),
            grouped(
                "gpugrp1/0/gpugrp0/A/gpu/0/cards", "gpugrp1/0/gpugrp0/A/gpu/1/cards", "gpugrp1/1/gpugrp0/B/gpu/0/cards"
            ),
        ),
        (THREE_LEVELS, grouped("tpu/0/chips", "gpu"), grouped("tpu/0/chips", "gpu")),
        ({"cpu": 1}, grouped("gpu/0/cards"), grouped("gpu/0/cards")),
    ],
)
def test_requests_are_translated_to_the_levels_of_the_node(
    offered: dict[str, int], requests: dict[str, int], expected: dict[str, int]
) -> None:
    assert lift_all(requests, offered) == expected
    assert lift_all(expected, offered) == expected


def test_missing_cards_are_numbered_after_those_in_use() -> None:
    assert add_cards(grouped("gpu/3/cards"), 3) == grouped("gpu/3/cards", "gpu/4/cards", "gpu/5/cards")
    assert add_cards(grouped("gpu/x/cards"), 2) == grouped("gpu/x/cards", "gpu/0/cards")
    assert add_cards(grouped("gpu/x/cards"), 0) == grouped("gpu/x/cards")


def test_the_cards_of_the_status_are_filled_in_only_where_the_node_advertises_fewer() -> None:
    node = NodeInfo("n", kube_alloc={CARDS: 2})
    fill_from_kube(node)
    filled = grouped("gpugrp1/0/gpugrp0/0/gpu/0/cards", "gpugrp1/1/gpugrp0/1/gpu/1/cards")
    assert node.allocatable == filled
    fill_from_kube(node)
    assert node.allocatable == filled
    advertised = NodeInfo("n", allocatable=dict(ONE_LEVEL), kube_alloc={CARDS: 2})
    fill_from_kube(advertised)
    assert advertised.allocatable == ONE_LEVEL


def test_an_absurd_number_of_cards_is_capped() -> None:
    node = NodeInfo("n", kube_alloc={CARDS: 2**62})
    fill_from_kube(node)
    assert len(cards(node.allocatable)) == MAX_CARDS
