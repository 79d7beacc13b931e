"""Namespaces take turns, and positions are those in which keys are served."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.provisioning.provision_queue import ProvisionOrder, ProvisionQueue, Tier, ordinal_bound


def drained(queue: ProvisionQueue) -> list[Hashable]:
    found = list[Hashable]()
    while (key := queue.pop(lambda _: True)) is not None:
        found.append(key)
    return found


def order(second: int, owner: str = "", index: int = 0) -> ProvisionOrder:
    return ProvisionOrder(f"2026-01-01T00:00:{second:02}Z", owner, index)


def test_retries_come_first_then_requests_by_the_age_of_their_owner_then_the_tail() -> None:
    queue = ProvisionQueue()
    queue.push("a", "tail", order(0), Tier.TAIL)
    queue.push("a", "young", order(9))
    queue.push("a", "old", order(1))
    queue.push("a", "retry", order(5), Tier.RETRY)
    assert drained(queue) == ["retry", "old", "young", "tail"]


def test_the_requests_of_an_owner_are_adjacent_in_index_order() -> None:
    queue = ProvisionQueue()
    for index in (1, 0):
        for owner in ("b", "a"):
            queue.push("flow", f"{owner}{index}", order(1, owner, index))
    assert drained(queue) == ["a0", "a1", "b0", "b1"]


def test_a_preferred_flow_is_served_next() -> None:
    queue = ProvisionQueue()
    for flow in "abc":
        queue.push(flow, flow, ProvisionOrder())
    queue.prefer("c")
    queue.prefer("nobody")
    assert drained(queue) == ["c", "a", "b"]


def test_flows_that_may_not_be_served_are_passed_over() -> None:
    queue = ProvisionQueue()
    queue.push("a", 1, ProvisionOrder())
    queue.push("b", 2, ProvisionOrder())
    assert (queue.has(lambda flow: flow == "b"), queue.has(lambda flow: flow == "c")) == (True, False)
    assert (queue.pop(lambda flow: flow == "b"), queue.pop(lambda flow: flow == "b")) == (2, None)


_STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.sampled_from(Tier), st.booleans(), st.booleans()),
    max_size=60,
)


@given(_STEPS)
def test_the_reported_position_is_the_place_in_the_order_of_service(
    steps: list[tuple[str, int, Tier, bool, bool]],
) -> None:
    queue, keys = ProvisionQueue(), set[Hashable]()
    for key, (flow, second, tier, pops, removes) in enumerate(steps):
        queue.push(flow, key, order(second), tier)
        keys.add(key)
        if pops:
            keys.discard(queue.pop(lambda flow: flow != "d"))
        if removes:
            queue.remove(key)
            keys.discard(key)
    assert len(queue) == len(keys)
    positions = {key: queue.ahead_of(key) for key in keys}
    served = drained(queue)
    assert set(served) == keys
    assert positions == {key: place for place, key in enumerate(served)}


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        CountedText.comparisons += 1
        return str.__lt__(self, other)

    __hash__ = str.__hash__


def comparisons_of(call: Callable[[], object]) -> int:
    before = CountedText.comparisons
    call()
    return CountedText.comparisons - before


@pytest.mark.parametrize("flows", [1, 40, 2000])
def test_a_position_compares_each_flow_once_and_bisects_the_keys_of_its_own(flows: int) -> None:
    queue, names = ProvisionQueue(), [CountedText(flow) for flow in range(flows)]
    for key in range(2000):
        queue.push(names[key % flows], key, ProvisionOrder(CountedText(f"{key:04}")))
    assert [queue.ahead_of(key) for key in range(2000)] == list(range(2000))
    probes = (2000 // flows).bit_length()
    most = flows + 3 * probes  # a probe compares the tuples for equality, finds where they differ, and orders that
    assert all(comparisons_of(partial(queue.ahead_of, key)) <= most for key in range(2000))


def test_the_position_that_an_owner_shows_changes_eleven_times_on_the_way_from_2000() -> None:
    shown = [ordinal_bound(position) for position in range(1, 2001)]
    assert all(position <= bound < 2 * position for position, bound in enumerate(shown, 1))
    assert len(set(shown)) == 12
