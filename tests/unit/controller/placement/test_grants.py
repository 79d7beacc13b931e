from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.placement.grants import Contender, decide_grants


def contender(node: str, **fields: Any) -> Contender:
    defaults: dict[str, Any] = {"groups": ("g",), "wants": True, "holds": False, "granted": False, "lost": False}
    return Contender(node=node, **(defaults | fields))


def test_grants_go_to_the_highest_priority_and_then_the_oldest_up_to_the_limit() -> None:
    nodes = [
        contender("a", since="2026-01-03"),
        contender("b", since="2026-01-01"),
        contender("c", since="2026-01-02", priority=5),
    ]
    assert decide_grants(nodes, {"g": 2}) == {"b", "c"}


def test_a_stalled_node_does_not_get_the_only_grant_again_despite_its_priority() -> None:
    nodes = [contender("a", priority=10**9, stalls=1), contender("b")]
    assert decide_grants(nodes, {"g": 1}) == {"b"}


def test_a_node_with_a_waiting_pod_comes_first_unless_it_stalled() -> None:
    waiting = contender("b", awaited=True)
    assert decide_grants([contender("a", priority=9), waiting], {"g": 1}) == {"b"}
    stalled = contender("b", awaited=True, stalls=1)
    assert decide_grants([contender("a"), stalled], {"g": 1}) == {"a"}
    holder = contender("a", granted=True, holds=True)
    assert decide_grants([holder, waiting], {"g": 1}) == {"a"}


def test_a_grant_is_kept_while_it_is_used() -> None:
    nodes = [contender("a", granted=True, holds=True), contender("b", priority=9)]
    assert decide_grants(nodes, {"g": 1}) == {"a"}


def test_a_node_whose_spec_holds_a_grant_keeps_it_after_a_controller_restart() -> None:
    nodes = [contender("b", holds=True), contender("a")]
    assert decide_grants(nodes, {"g": 1}) == {"b"}


def test_a_lost_holder_keeps_its_slot_until_its_spec_withdraws_the_grant() -> None:
    lost = contender("a", granted=True, holds=True, lost=True)
    assert decide_grants([lost, contender("b")], {"g": 1}) == frozenset()
    written = contender("a", lost=True)
    assert decide_grants([written, contender("b")], {"g": 1}) == {"b"}


def test_a_node_of_two_groups_needs_a_slot_in_both() -> None:
    both = contender("both", groups=("g", "h"))
    holder = contender("h1", groups=("h",), granted=True, holds=True)
    assert decide_grants([both, holder], {"g": 5, "h": 1}) == {"h1"}


names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
contenders = st.lists(
    st.builds(
        Contender,
        node=names,
        groups=st.sampled_from([("g",), ("h",), ("g", "h")]),
        wants=st.booleans(),
        holds=st.booleans(),
        granted=st.booleans(),
        lost=st.booleans(),
        priority=st.integers(-2, 2),
    ),
    unique_by=lambda c: c.node,
)


@given(contenders, st.integers(1, 4), st.integers(1, 4))
def test_new_grants_never_exceed_the_limit(nodes: list[Contender], g: int, h: int) -> None:
    limits = {"g": g, "h": h}
    granted = decide_grants(nodes, limits)
    inherited = {c.node for c in nodes if c.granted or c.holds}
    for group, most in limits.items():
        taken = Counter(group for c in nodes if group in c.groups and (c.node in granted or c.holds))[group]
        before = Counter(group for c in nodes if group in c.groups and c.node in inherited)[group]
        assert taken <= max(most, before)
    assert all(c.wants and not c.lost for c in nodes if c.node in granted)


@given(contenders)
def test_deciding_again_keeps_all_grants(nodes: list[Contender]) -> None:
    first = decide_grants(nodes, {"g": 2, "h": 1})
    reported = [
        Contender(c.node, c.groups, c.wants, c.node in first, c.node in first, c.lost, priority=c.priority)
        for c in nodes
    ]
    assert decide_grants(reported, {"g": 2, "h": 1}) >= first
