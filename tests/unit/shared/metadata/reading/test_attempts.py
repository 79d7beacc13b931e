"""How long an interrupted reading waits, and when it is abandoned."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.reading.attempts import (
    FAILED,
    INTERRUPTED,
    MAX_INTERRUPTIONS,
    count_attempts,
    given_up,
    identity_of,
    interruption_wait,
)
from shared.metadata.reading.termination_message import MAX_MESSAGE, Reading

KILLED = Reading(reason=INTERRUPTED, message="x" * MAX_MESSAGE)


@given(st.text(), st.integers(-3, 10**6))
def test_an_interruption_waits_ten_minutes_doubling_up_to_six_hours(identity: str, attempts: int) -> None:
    waits = [interruption_wait(identity, n) / timedelta(minutes=1) for n in (1, 2, 3, 6, 7, 100)]
    for wait, middle in zip(waits, (10, 20, 40, 320, 360, 360), strict=True):
        assert 0.75 * middle <= wait <= 1.25 * middle
    assert timedelta(minutes=7) < interruption_wait(identity, attempts) < timedelta(hours=8)
    assert interruption_wait(identity, attempts) == interruption_wait(identity, attempts)


def test_models_interrupted_together_are_retried_at_different_times() -> None:
    waits = {interruption_wait(identity_of(str(n)), 1) for n in range(100)}
    assert max(waits) - min(waits) > timedelta(minutes=3)


def test_interruptions_are_counted_separately_from_other_failures() -> None:
    assert count_attempts("", 0, INTERRUPTED) == 1
    assert count_attempts("Unreachable", 9, INTERRUPTED) == 1
    assert count_attempts(INTERRUPTED, 3, INTERRUPTED) == 4
    assert count_attempts("Unreachable", 3, "Unreachable") == 4


def test_a_reading_interrupted_too_often_counts_as_failed() -> None:
    assert given_up(KILLED, MAX_INTERRUPTIONS - 1) == KILLED
    last = given_up(KILLED, MAX_INTERRUPTIONS)
    assert (last.reason, len(last.message)) == (FAILED, MAX_MESSAGE)
    away = Reading(reason="Unreachable")
    assert given_up(away, 10**6) == away
