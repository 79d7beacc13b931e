import pytest

from agent.transfer.patience import Patience
from shared.errors import AuthDenied, RateLimited, Unreachable
from shared.sources.retry import RetryPolicy, Timing

POLICY = RetryPolicy(attempts=3, patience_s=60, first_s=1, longest_s=10)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def patience(clock: Clock) -> Patience:
    return Patience(POLICY, Timing(clock, lambda: 1.0))


def test_waits_longer_each_time_and_gives_up() -> None:
    clock = Clock()
    tried = patience(clock)
    for expected in (1.0, 2.0):
        clock.now += 20
        assert tried.pause(Unreachable("gone"), 100) == expected
    clock.now += 20
    with pytest.raises(Unreachable):
        tried.pause(Unreachable("gone"), 100)


def test_progress_begins_anew() -> None:
    clock = Clock()
    tried = patience(clock)
    for missing in range(100, 0, -1):
        clock.now += 20
        assert tried.pause(Unreachable("gone"), missing) == 1.0


def test_receivers_that_meet_the_same_trouble_wait_together() -> None:
    clock = Clock()
    tried = patience(clock)
    clock.now = 20
    assert tried.pause(Unreachable("gone"), 100) == 1.0
    clock.now += 0.25
    assert [tried.pause(Unreachable("gone"), 100) for _ in range(10)] == [0.75] * 10


def test_what_somebody_must_act_on_is_raised_even_while_others_wait() -> None:
    tried = patience(Clock())
    tried.pause(Unreachable("gone"), 100)
    with pytest.raises(AuthDenied):
        tried.pause(AuthDenied("no"), 100)


def test_a_server_that_asks_for_more_than_there_is_patience_for_is_left() -> None:
    with pytest.raises(RateLimited):
        patience(Clock()).pause(RateLimited("later", 3600), 100)
