"""How long interactive commands wait for a source; time is an argument."""

from collections.abc import Callable

import pytest

from shared.errors import LarderError, RateLimited, Unreachable
from shared.sources.for_commands import POLICY, STALL_TIMEOUT_S, StallDeadline
from shared.sources.retry import Timing, retry

Answer = Callable[[float], LarderError | None]
DOWN = Unreachable("status 503")


def asks(after_s: float) -> RateLimited:
    return RateLimited(f"wait {after_s:.0f} s", after_s)


def ends(answer: Answer, chance: float = 0.5) -> tuple[float, int, LarderError | None]:
    """Return when requests to a source end, their number, and the final failure.

    The source answers at each second as `answer` says; an answer takes a tenth of a second.
    """
    now, asked = [0.0], [0]

    def act() -> None:
        asked[0] += 1
        now[0] += 0.1
        if failure := answer(now[0]):
            raise failure

    def wait(pause_s: float, _: LarderError) -> None:
        now[0] += pause_s

    try:
        retry(act, POLICY, Timing(lambda: now[0], lambda least, most: least + (most - least) * chance), wait)
    except LarderError as error:
        return now[0], asked[0], error
    return now[0], asked[0], None


@pytest.mark.parametrize("chance", [0.0, 0.99])
@pytest.mark.parametrize("after_s", [0, 1, 5, 30, 45, 60])
def test_a_command_waits_a_minute_if_the_source_requests_it(after_s: float, chance: float) -> None:
    end_s, asked, failure = ends(lambda now: asks(after_s) if now < 60 else None, chance)
    assert failure is None
    assert 60 <= end_s <= 60 + after_s + 10
    assert asked <= 30


def test_a_failure_after_a_minute_of_waiting_is_retried() -> None:
    end_s, _, failure = ends(lambda now: asks(5) if now < 60 else DOWN if now < 80 else None)
    assert failure is None
    assert end_s < 90


def test_a_server_that_keeps_asking_to_wait_is_abandoned_after_the_timeout() -> None:
    end_s, _, failure = ends(lambda _: asks(5))
    assert isinstance(failure, RateLimited)
    assert POLICY.rate_limit_timeout_s - 20 <= end_s <= POLICY.rate_limit_timeout_s + 1
    end_s, asked, failure = ends(lambda _: asks(3600))
    assert isinstance(failure, RateLimited)
    assert (asked, end_s) == (1, 0.1)


@pytest.mark.parametrize("chance", [0.0, 0.99])
def test_a_server_that_is_down_is_retried_until_the_budget_ends(chance: float) -> None:
    assert ends(lambda now: DOWN if now < 30 else None, chance)[2] is None
    end_s, asked, failure = ends(lambda _: DOWN, chance)
    assert failure is DOWN
    assert POLICY.timeout_s - POLICY.cap_s - 1 <= end_s <= POLICY.timeout_s + 1
    assert 8 < asked < 30


def test_a_server_that_alternates_between_pauses_and_failures_is_abandoned() -> None:
    tries = iter(range(1000))
    end_s, _, failure = ends(lambda _: DOWN if next(tries) % 2 else asks(1))
    assert failure is not None
    assert end_s <= POLICY.rate_limit_timeout_s + POLICY.timeout_s


def lost_after(failure: Callable[[int], LarderError | None], came: Callable[[int], bool] = lambda _: False) -> int:
    """Return after how many seconds of checks the command gives up; 1000 if it never does."""
    hope = StallDeadline(0)
    for second in range(1000):
        if came(second):
            hope.renew(second)
        hope.note(failure(second), second)
        if hope.expired(second):
            return second
    return 1000


def test_the_stall_deadline_extends_by_the_requested_wait_only() -> None:
    assert lost_after(lambda _: None) == STALL_TIMEOUT_S
    assert lost_after(lambda _: DOWN) == STALL_TIMEOUT_S
    once = asks(60)
    assert lost_after(lambda second: once if second >= 10 else None) == 10 + 60 + STALL_TIMEOUT_S
    assert lost_after(lambda _: asks(5)) == POLICY.rate_limit_timeout_s + STALL_TIMEOUT_S
    assert lost_after(lambda _: asks(3600)) == POLICY.rate_limit_timeout_s + STALL_TIMEOUT_S


def test_received_bytes_reset_the_stall_deadline() -> None:
    assert lost_after(lambda _: None, lambda second: second == 30) == 30 + STALL_TIMEOUT_S
    assert lost_after(lambda _: asks(5), lambda second: second % 100 == 0) == 1000


def test_bytes_of_another_file_do_not_shorten_a_wait() -> None:
    once = asks(100)
    assert lost_after(lambda _: once, lambda second: second == 10) == 100 + STALL_TIMEOUT_S
