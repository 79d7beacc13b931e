"""`used` of a node follows the pods on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.devices.accounting import give_back, pod_use, take
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

MEMORY, CARDS, KIND = (f"resource/group/gpu/u1/{leaf}" for leaf in ("memory", "cards", "enumType"))


def container(**amounts: int) -> ContainerInfo:
    names = {leaf: f"resource/group/gpu/0/{leaf}" for leaf in amounts}
    return ContainerInfo(
        dev_requests={names[leaf]: amount for leaf, amount in amounts.items()},
        allocate_from={name: f"resource/group/gpu/u1/{leaf}" for leaf, name in names.items()},
    )


def node(**used: int) -> NodeInfo:
    allocatable = {MEMORY: 100, CARDS: 2, KIND: 0b11}
    return NodeInfo("n", allocatable=allocatable, used={f"resource/group/gpu/u1/{leaf}": n for leaf, n in used.items()})


@pytest.mark.parametrize(
    ("running", "init", "expected"),
    [
        ([container(memory=10), container(memory=20)], [], {MEMORY: 30}),
        ([container(memory=10)], [container(memory=5)], {MEMORY: 10}),
        ([container(memory=10)], [container(memory=50), container(memory=40, cards=1)], {MEMORY: 50, CARDS: 1}),
        ([container(enumType=0b101)], [], {KIND: 0b001}),
        ([ContainerInfo(allocate_from={"cpu": "cpu"})], [], {}),
    ],
)
def test_init_containers_count_only_if_they_use_more_than_the_running_ones(
    running: list[ContainerInfo], init: list[ContainerInfo], expected: dict[str, int]
) -> None:
    pod = PodInfo(
        running_containers={f"r{i}": each for i, each in enumerate(running)},
        init_containers={f"i{i}": each for i, each in enumerate(init)},
    )
    assert pod_use(node(), pod) == expected


def test_bit_masks_are_not_counted_as_used_amounts() -> None:
    info, pod = node(memory=10), PodInfo(running_containers={"r": container(memory=10, enumType=0b1)})
    take(info, pod)
    assert info.used == {MEMORY: 20, KIND: 0}
    give_back(info, pod)
    assert info.used == {MEMORY: 10, KIND: 0}


def test_a_device_that_is_gone_is_still_counted_but_never_below_zero() -> None:
    info, pod = NodeInfo("n"), PodInfo(running_containers={"r": container(cards=1)})
    take(info, pod)
    assert info.used == {CARDS: 1}
    for _ in range(2):
        give_back(info, pod)
    assert info.used == {CARDS: 0}


amounts = st.lists(st.integers(0, 50), max_size=4)


@given(amounts, amounts)
def test_taking_and_giving_back_devices_restores_the_used_amount(running: list[int], init: list[int]) -> None:
    info = node(memory=7, cards=1)
    pod = PodInfo(
        running_containers={f"r{i}": container(memory=each) for i, each in enumerate(running)},
        init_containers={f"i{i}": container(memory=each) for i, each in enumerate(init)},
    )
    take(info, pod)
    assert info.used[MEMORY] == 7 + max([sum(running), *init])
    give_back(info, pod)
    assert info.used[MEMORY] == 7
