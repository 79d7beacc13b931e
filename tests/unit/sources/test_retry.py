import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from shared.sources.retry import RetryPolicy, pause_before_retry

POLICY = RetryPolicy(attempts=6, patience_s=120, first_s=0.5, longest_s=30)


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
def test_what_the_same_request_cannot_mend_is_given_up_at_once(error: LarderError) -> None:
    assert pause_before_retry(POLICY, error, 1, 0, 0.5) is None


@given(failures=st.integers(1, 5), chance=st.floats(0, 1, exclude_max=True))
def test_back_off_doubles_with_jitter_and_has_a_ceiling(failures: int, chance: float) -> None:
    pause_s = pause_before_retry(POLICY, Unreachable("x"), failures, 0, chance)
    ceiling = min(30, 0.5 * 2 ** (failures - 1))
    assert pause_s is not None
    assert ceiling / 2 <= pause_s <= ceiling


@given(failures=st.integers(6, 10**6))
def test_attempts_without_progress_are_bounded(failures: int) -> None:
    assert pause_before_retry(POLICY, Unreachable("x"), failures, 0, 0.5) is None


@given(after_s=st.floats(0, 60), failures=st.integers(1, 1000))
def test_a_server_that_asks_for_time_gets_at_least_that(after_s: float, failures: int) -> None:
    pause_s = pause_before_retry(POLICY, RateLimited("x", after_s), failures, 0, 0)
    assert pause_s is not None
    assert pause_s >= after_s


def test_more_time_than_there_is_patience_is_left_to_the_caller() -> None:
    assert pause_before_retry(POLICY, RateLimited("x", 300), 1, 0, 0.5) is None
    assert pause_before_retry(POLICY, Unreachable("x"), 1, 119.9, 0.5) is None
