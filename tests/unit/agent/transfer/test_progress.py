import pytest

from agent.transfer.progress import Progress
from shared.errors import Unreachable
from tests.builders.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def test_done_bytes_are_those_present_and_received(clock: Clock) -> None:
    progress = Progress(100, clock)
    progress.count_present(30)
    progress.count_received(20)
    progress.count_present(-10)
    assert (progress.done, progress.received, progress.total) == (40, 20, 100)


def test_the_rate_is_that_of_the_last_seconds(clock: Clock) -> None:
    progress = Progress(0, clock)
    for _ in range(40):
        clock.now += 0.5
        progress.count_received(500)
    assert progress.rate() == pytest.approx(1000, rel=0.15)
    for _ in range(40):
        clock.now += 0.5
        progress.count_received(5000)
    assert progress.rate() == pytest.approx(10_000, rel=0.15)


def test_the_rate_falls_to_zero_when_no_bytes_arrive(clock: Clock) -> None:
    progress = Progress(0, clock)
    clock.now += 1
    progress.count_received(10**6)
    assert progress.rate() > 0
    clock.now += 60
    assert progress.rate() == 0


def test_bytes_already_present_do_not_count_towards_the_rate(clock: Clock) -> None:
    progress = Progress(0, clock)
    progress.count_present(10**9)
    clock.now += 1
    assert progress.rate() == 0


def test_a_failure_clears_with_the_next_byte(clock: Clock) -> None:
    progress = Progress(0, clock)
    progress.failure = Unreachable("x")
    progress.count_received(1)
    assert progress.failure is None
