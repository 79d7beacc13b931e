import pytest

from controller.presence import Presence
from tests.unit.controller.worlds import pod


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def presence(clock: Clock) -> Presence:
    return Presence(clock)


def test_a_node_without_an_agent_is_away_since_it_was_first_asked_for(presence: Presence, clock: Clock) -> None:
    clock.now = 100
    assert presence.away_s("a") == 0
    clock.now = 130
    assert presence.away_s("a") == 30


def test_an_agent_ends_the_absence_and_its_end_begins_another(presence: Presence, clock: Clock) -> None:
    agent = pod("agent", "a")
    assert presence.change(None, agent) == {"a"}
    clock.now = 500
    assert (presence.ready("a"), presence.away_s("a")) == (True, 0)
    unready = pod("agent", "a", ready=False)
    assert presence.change(agent, unready) == {"a"}
    clock.now = 520
    assert presence.away_s("a") == 20
    assert presence.change(unready, None) == set()
    assert presence.away_s("a") == 20


def test_one_ready_agent_of_two_is_enough(presence: Presence) -> None:
    old, new = pod("old", "a"), pod("new", "a")
    presence.change(None, old)
    assert presence.change(None, new) == set()
    assert presence.change(old, None) == set()
    assert presence.ready("a")


def test_one_that_terminates_does_not_count(presence: Presence) -> None:
    assert presence.change(None, pod("agent", "a", deletion_timestamp="2026-01-01T00:00:00Z")) == set()
    assert not presence.ready("a")


def test_one_that_is_not_bound_concerns_no_node(presence: Presence) -> None:
    unbound, bound = pod("agent", ""), pod("agent", "a")
    assert presence.change(None, unbound) == set()
    assert presence.change(unbound, bound) == {"a"}


def test_nodes_that_are_gone_leave_nothing(presence: Presence) -> None:
    agent = pod("agent", "a")
    presence.change(None, agent)
    presence.change(agent, None)
    presence.forget("a")
    assert (presence._pods, presence._away_since) == ({}, {})
