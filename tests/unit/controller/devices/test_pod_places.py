"""The worked example of `pod_places`: which places are equal, and which count as used without a search."""

from controller.devices.allocation import Allocation, PodUse, allocate
from controller.devices.groups import Place
from controller.devices.pod_places import NodeDevices, PodPlaces
from shared.devices.info import ContainerInfo, NodeInfo

CARDS = {f"resource/group/gpugrp0/{card // 2}/gpu/{card}/cards": 1 for card in range(4)}
REQUESTS = {f"resource/group/gpugrp0/A/gpu/{card}/cards": 1 for card in "ab"}


def places() -> PodPlaces:
    return PodPlaces(NodeDevices(NodeInfo("n", allocatable=dict(CARDS))))


def group_of(pod: PodPlaces, name: str) -> Place:
    return pod.node.root.groups["gpugrp0"][name]


def states(pod: PodPlaces) -> dict[str, int]:
    """Return the states of the groups and of their cards, by name."""
    found = {name: pod.state(group, {}) for name, group in pod.node.root.groups["gpugrp0"].items()}
    for name in list(found):
        cards = group_of(pod, name).groups["gpu"]
        found |= {f"{name}/{card}": pod.state(place, {}) for card, place in cards.items()}
    return found


def test_a_used_place_differs_from_its_equals_and_so_does_the_group_around_it() -> None:
    pod = places()
    assert states(pod) == {"0": 1, "0/0": 0, "0/1": 0, "1": 1, "1/2": 0, "1/3": 0}
    pod.mark_used(group_of(pod, "1").groups["gpu"]["3"])
    assert states(pod) == {"0": 1, "0/0": 0, "0/1": 0, "1": -2, "1/2": 0, "1/3": -1}


def test_places_that_were_not_searched_count_as_used_like_their_equals() -> None:
    pod, use = places(), PodUse()
    found = allocate("main", ContainerInfo(dev_requests=dict(REQUESTS)), pod, use, init=False)
    assert isinstance(found, Allocation)
    assert [name.rpartition("/gpu/")[2] for name in found.allocate_from.values()] == ["3/cards", "2/cards"]
    used = [place.path for place in pod.node.root.walk() if pod.is_used(place)]
    cards = [f"/gpugrp0/{group}/gpu/{card}" for group in range(2) for card in range(2)]
    assert used == [*cards, "/gpugrp0/1", ""], "the group /gpugrp0/0 was neither searched nor chosen"
