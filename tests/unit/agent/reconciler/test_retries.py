from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reconciler.observation import Cause
from agent.reconciler.retries import Retries, is_new_failure
from shared.errors import AuthDenied, DigestMismatch, InsufficientStorage, NotGranted, RateLimited, Unreachable
from tests.builders.observations import claim, entry

LATEST = Retries(lambda _, most: most)
EARLIEST = Retries(lambda least, _: least)


def test_a_transient_failure_is_retried_soon_and_then_with_growing_delays() -> None:
    waits = [LATEST.delay_s(Unreachable("x"), n) for n in (1, 2, 3, 20)]
    assert waits == [2, 4, 8, 300]
    assert EARLIEST.delay_s(DigestMismatch("x"), 1) == 1


def test_a_failure_that_needs_action_is_retried_within_the_hour() -> None:
    assert EARLIEST.delay_s(AuthDenied("x"), 1) == 15 * 60
    assert LATEST.delay_s(AuthDenied("x"), 9) == 60 * 60


def test_the_wait_that_a_server_requests_is_honoured() -> None:
    assert EARLIEST.delay_s(RateLimited("x", 90), 1) == 90
    assert LATEST.delay_s(RateLimited("x", 90), 5) <= 120
    assert EARLIEST.delay_s(RateLimited("x", 0), 1) == 1


def test_a_missing_grant_is_requested_at_least_twice_a_minute() -> None:
    assert LATEST.delay_s(NotGranted("x"), 50) == 30


@given(st.integers(1, 10**6))
def test_the_delay_stays_bounded_after_any_number_of_failures(failures: int) -> None:
    assert 0 < LATEST.delay_s(Unreachable("x"), failures) <= 300


@pytest.mark.parametrize("changed", [{"manifest": "b" * 64}, {"uri": "hf://o/other@r1"}, {"claims": [claim()]}])
def test_failures_of_an_earlier_request_do_not_count(changed: dict[str, Any]) -> None:
    first = LATEST.failure(entry(), Unreachable("x"), None, 10.0, transient=False)
    again = LATEST.failure(entry(), Unreachable("x"), first, 20.0, transient=False)
    other = LATEST.failure(entry(**changed), Unreachable("x"), again, 30.0, transient=False)
    assert [s.attempts for s in (first, again, other)] == [1, 2, 1]
    assert [s.due_s for s in (first, again, other)] == [12, 24, 32]


def test_a_shortage_is_reported_when_its_numbers_change_not_its_wording() -> None:
    before = Cause("InsufficientStorage", "need 9, disk free 5", 4)
    assert not is_new_failure(before, Cause("InsufficientStorage", "need 9, disk free 6", 4))
    assert is_new_failure(before, Cause("InsufficientStorage", "need 9, disk free 6", 3))
    assert is_new_failure(before, Cause("StoreFailure", "need 9, disk free 5", 4))
    assert is_new_failure(Cause("StoreFailure", "read-only"), Cause("StoreFailure", "input/output error"))


def test_a_failure_reports_its_attempt_and_the_time_of_the_next() -> None:
    retries = Retries(lambda _, most: most, now=lambda: datetime(2026, 6, 1, 12, 0, tzinfo=UTC))
    first = retries.failure(entry(), Unreachable("503 from hub"), None, 100.0, transient=False)
    second = retries.failure(entry(), Unreachable("503 from hub"), first, 102.0, transient=False)
    assert first.cause.message == "503 from hub (attempt 1; the next is at 2026-06-01 12:00:02 UTC)"
    assert second.cause.message == "503 from hub (attempt 2; the next is at 2026-06-01 12:00:04 UTC)"
    assert not is_new_failure(first.cause, second.cause)
    full = retries.failure(entry(), InsufficientStorage("no room"), None, 100.0, transient=False)
    assert full.cause.message == "no room"
