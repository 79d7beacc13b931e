import pytest

from controller.state.nodes.agent_liveness import AgentLiveness
from tests.builders.clock import Clock
from tests.builders.cluster import pod


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def liveness(clock: Clock) -> AgentLiveness:
    return AgentLiveness(clock)


def test_a_node_without_an_agent_counts_as_away_since_the_first_request(liveness: AgentLiveness, clock: Clock) -> None:
    clock.now = 100
    assert liveness.away_s("a") == 0
    clock.now = 130
    assert liveness.away_s("a") == 30


def test_a_node_counts_as_away_from_when_its_agent_is_unready(liveness: AgentLiveness, clock: Clock) -> None:
    agent = pod("agent", "a")
    assert liveness.change(None, agent) == {"a"}
    clock.now = 500
    assert (liveness.ready("a"), liveness.away_s("a")) == (True, 0)
    unready = pod("agent", "a", ready=False)
    assert liveness.change(agent, unready) == {"a"}
    clock.now = 520
    assert liveness.away_s("a") == 20
    assert liveness.change(unready, None) == set()
    assert liveness.away_s("a") == 20


def test_a_node_is_ready_while_one_of_its_agents_is_ready(liveness: AgentLiveness) -> None:
    old, new = pod("old", "a"), pod("new", "a")
    liveness.change(None, old)
    assert liveness.change(None, new) == set()
    assert liveness.change(old, None) == set()
    assert liveness.ready("a")


def test_an_agent_that_terminates_does_not_count(liveness: AgentLiveness) -> None:
    assert liveness.change(None, pod("agent", "a", deletion_timestamp="2026-01-01T00:00:00Z")) == set()
    assert not liveness.ready("a")


def test_a_pod_that_is_not_bound_wakes_no_node(liveness: AgentLiveness) -> None:
    unbound, bound = pod("agent", ""), pod("agent", "a")
    assert liveness.change(None, unbound) == set()
    assert liveness.change(unbound, bound) == {"a"}


def test_no_state_is_kept_for_deleted_nodes(liveness: AgentLiveness) -> None:
    agent = pod("agent", "a")
    liveness.change(None, agent)
    liveness.change(agent, None)
    liveness.forget("a")
    assert (liveness._pods, liveness._away_since) == ({}, {})
