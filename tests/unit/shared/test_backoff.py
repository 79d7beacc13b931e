import math

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.backoff import Backoff


@settings(deadline=None)  # a busy machine is not a failure
@given(failures=st.integers(1, 100_000), first_s=st.floats(0.001, 10), times=st.floats(1, 1000))
def test_never_overflows_and_stays_between_half_the_first_wait_and_the_cap(
    failures: int, first_s: float, times: float
) -> None:
    delay_s = Backoff(first_s, first_s * times).delay_s(failures)
    assert math.isfinite(delay_s)
    assert first_s / 2 <= delay_s <= first_s * times


def test_doubles_up_to_the_cap() -> None:
    backoff = Backoff(1, 10, uniform=lambda _, high: high)
    assert [backoff.delay_s(n) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 10, 10]


def test_spreads_over_the_upper_half() -> None:
    assert Backoff(1, 10, uniform=lambda low, _: low).delay_s(3) == 2


@settings(deadline=None)
@given(failures=st.integers(1, 10**6), asked_s=st.floats(0, 10**6))
def test_the_wait_is_the_time_that_the_server_requested_and_little_more(failures: int, asked_s: float) -> None:
    latest = Backoff(1, 60, uniform=lambda _, high: high)
    earliest = Backoff(1, 60, uniform=lambda low, _: low)
    assert earliest.delay_s(failures, asked_s) >= asked_s
    assert latest.delay_s(failures, asked_s) <= max(60, asked_s * 1.25)
    assert latest.delay_s(failures, asked_s) <= asked_s + 60


def test_clients_that_wait_together_retry_at_different_times() -> None:
    backoff = Backoff(1, 60)
    waits = [backoff.delay_s(1, 100) for _ in range(1000)]
    assert min(waits) < 105
    assert max(waits) > 120
