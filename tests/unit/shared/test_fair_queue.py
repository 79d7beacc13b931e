"""Flows take turns, and the items of a flow keep their order."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from shared.fair_queue import FairQueue


def test_a_flow_with_thousands_of_items_does_not_delay_another_flow() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for i in range(2100):
        queue.push("big", i)
    queue.push("small", -1)
    assert [queue.pop(), queue.pop(), queue.pop()] == [0, -1, 1]


def test_a_blocked_flow_is_skipped_and_keeps_its_place() -> None:
    queue: FairQueue[str, str] = FairQueue()
    for flow in "abc":
        queue.push(flow, flow)
    assert queue.pop(lambda flow: flow != "a") == "b"
    assert queue.pop(lambda _: False) is None
    assert [queue.pop(), queue.pop(), queue.pop()] == ["a", "c", None]


def test_an_item_can_be_removed() -> None:
    queue: FairQueue[str, int] = FairQueue()
    queue.push("a", 1)
    assert queue.remove("a", 1)
    assert not queue.remove("a", 1)
    assert (len(queue), queue.waiting("a"), queue.pop()) == (0, 0, None)


@given(st.lists(st.one_of(st.sampled_from("abcd"), st.none()), max_size=200))
def test_every_item_is_served_once_in_order_and_no_flow_waits_for_two_of_another(steps: list[str | None]) -> None:
    queue: FairQueue[str, tuple[str, int]] = FairQueue()
    pushed: Counter[str] = Counter()
    popped: defaultdict[str, list[int]] = defaultdict(list)
    passed: defaultdict[str, Counter[str]] = defaultdict(Counter)  # turns of others while a flow waits
    for flow in [*steps, *[None] * 200]:
        if flow is not None:
            queue.push(flow, (flow, pushed[flow]))
            pushed[flow] += 1
            continue
        waiting = [other for other in "abcd" if queue.waiting(other)]
        item = queue.pop()
        if item is None:
            assert not waiting
            continue
        popped[item[0]].append(item[1])
        for other in waiting:
            passed[other][item[0]] += 1
            assert max(passed[other].values()) <= 1 or other == item[0]
        passed[item[0]].clear()
    assert all(popped[flow] == list(range(pushed[flow])) for flow in pushed)
    assert len(queue) == 0
