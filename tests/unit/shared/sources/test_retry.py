import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.backoff import Uniform
from shared.errors import (
    AddressRefused,
    AuthDenied,
    InsufficientStorage,
    LarderError,
    RateLimited,
    SourceChanged,
    SourceNotFound,
    StoreFailure,
    Unreachable,
    UnsafePath,
)
from shared.sources.retry import MIN_PROGRESS_BYTES, RetryBudget, RetryPolicy, pause_before_retry


def draw(chance: float) -> Uniform:
    """Return a random function that always returns the same point between its bounds."""
    return lambda least, most: least + (most - least) * chance


EARLIEST, MIDDLE = draw(0), draw(0.5)
POLICY = RetryPolicy(attempts=6, timeout_s=120, first_s=0.5, cap_s=30)


@pytest.mark.parametrize(
    "error",
    [
        AuthDenied("a"),
        SourceNotFound("b"),
        UnsafePath("c"),
        AddressRefused("d"),
        InsufficientStorage("e"),
        StoreFailure("f"),
        SourceChanged("g"),
    ],
)
def test_a_failure_that_a_retry_cannot_resolve_is_raised_at_once(error: LarderError) -> None:
    assert pause_before_retry(POLICY, error, 1, 0, MIDDLE) is None


@given(failures=st.integers(1, 5), chance=st.floats(0, 1, exclude_max=True))
def test_back_off_doubles_with_jitter_and_has_a_ceiling(failures: int, chance: float) -> None:
    pause_s = pause_before_retry(POLICY, Unreachable("x"), failures, 0, draw(chance))
    ceiling = min(30, 0.5 * 2 ** (failures - 1))
    assert pause_s is not None
    assert ceiling / 2 <= pause_s <= ceiling


@given(failures=st.integers(6, 10**6))
def test_attempts_without_progress_are_bounded(failures: int) -> None:
    assert pause_before_retry(POLICY, Unreachable("x"), failures, 0, MIDDLE) is None


@given(
    failures_since_data=st.integers(1, 10**6),
    received_bytes=st.integers(1, 10**12),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_the_pause_shrinks_with_the_bytes_that_the_last_attempt_brought(
    failures_since_data: int, received_bytes: int, chance: float
) -> None:
    pause_s = pause_before_retry(
        POLICY,
        Unreachable("x"),
        1,
        0,
        draw(chance),
        failures_since_data=failures_since_data,
        received_bytes=received_bytes,
    )
    grown_s = min(30, 0.5 * 2 ** min(failures_since_data - 1, 30))
    ceiling = min(grown_s, 0.5 * MIN_PROGRESS_BYTES / received_bytes)
    assert pause_s is not None
    assert ceiling / 2 <= pause_s <= ceiling


@given(tries=st.integers(1, 5), failures=st.integers(1, 10))
def test_an_error_with_its_own_limit_of_tries_is_retried_up_to_that_limit(tries: int, failures: int) -> None:
    pause_s = pause_before_retry(POLICY, Unreachable("x", tries), failures, 0, MIDDLE)
    assert (pause_s is None) is (failures >= tries)


@given(after_s=st.floats(0, 60), failures=st.integers(1, 1000))
def test_the_pause_is_never_shorter_than_the_server_requested(after_s: float, failures: int) -> None:
    pause_s = pause_before_retry(POLICY, RateLimited("x", after_s), failures, 0, EARLIEST)
    assert pause_s is not None
    assert pause_s >= after_s


def test_no_retry_is_made_if_the_wait_exceeds_the_remaining_time() -> None:
    assert pause_before_retry(POLICY, RateLimited("x", 300), 1, 0, MIDDLE) is None
    assert pause_before_retry(POLICY, Unreachable("x"), 1, 119.9, MIDDLE) is None


def test_a_separate_longer_timeout_applies_to_rate_limits() -> None:
    policy = RetryPolicy(timeout_s=40, cap_s=5, rate_limit_timeout_s=150)
    assert pause_before_retry(policy, RateLimited("x", 60), 1, 80, MIDDLE) is not None
    assert pause_before_retry(policy, RateLimited("x", 60), 1, 95, MIDDLE) is None
    assert pause_before_retry(policy, Unreachable("x"), 1, 80, MIDDLE) is None


def test_failures_after_a_requested_pause_count_but_further_pauses_do_not() -> None:
    clock = [0.0]
    budget = RetryBudget(RetryPolicy(attempts=3, timeout_s=40, first_s=1, rate_limit_timeout_s=100), EARLIEST, 0)

    def fails(error: LarderError) -> bool:
        pause_s = budget.pause_s(error, clock[0])
        clock[0] += pause_s or 0
        return pause_s is None

    assert not fails(Unreachable("x"))
    assert not fails(Unreachable("x"))
    assert not fails(RateLimited("x", 50))
    assert not fails(Unreachable("x"))
    assert not fails(Unreachable("x"))
    assert fails(Unreachable("x"))
    assert fails(RateLimited("x", 50))
    budget.renew(clock[0])
    assert not fails(RateLimited("x", 50))
