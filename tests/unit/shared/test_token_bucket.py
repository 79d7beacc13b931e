"""How many tokens may be taken, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.token_bucket import TokenBucket

draws = st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 30)), max_size=50)


@given(draws)
def test_at_most_the_accrued_tokens_and_one_draw_on_credit_are_taken(steps: list[tuple[float, float]]) -> None:
    bucket, now, taken = TokenBucket(rate=2.0, burst=10.0, filled_at=0.0, tokens=10.0), 0.0, 0.0
    for pause_s, count in steps:
        now += pause_s
        if not bucket.draw(count, now):
            taken += count
    credit = max((count for _, count in steps), default=0.0)
    assert taken <= 10.0 + 2.0 * now + credit + 1e-6


@given(st.floats(0.1, 30), st.floats(0, 10))
def test_the_stated_wait_is_enough(count: float, tokens: float) -> None:
    bucket = TokenBucket(rate=2.0, burst=10.0, filled_at=0.0, tokens=tokens)
    wait_s = bucket.draw(count, 0.0)
    assert bool(wait_s) == (tokens + 1e-9 < min(count, 10.0)) or wait_s < 1e-6
    if wait_s:
        assert bucket.draw(count, wait_s) == 0.0


def test_tokens_accrue_up_to_the_burst() -> None:
    bucket = TokenBucket(rate=2.0, burst=10.0, filled_at=0.0)
    assert bucket.wait_s(4.0, 0.0) == 2.0
    assert bucket.wait_s(10.0, 100.0) == 0.0
    assert bucket.tokens == 10.0
    assert bucket.draw(25.0, 100.0) == 0.0, "on credit, because the bucket is full"
    assert bucket.draw(1.0, 100.0) == pytest.approx(8.0), "the debt is repaid first"


def test_tokens_given_back_fit_into_the_bucket() -> None:
    bucket = TokenBucket(rate=1.0, burst=10.0, filled_at=0.0, tokens=10.0)
    assert bucket.draw(4.0, 0.0) == 0.0
    bucket.give_back(3.0)
    assert bucket.tokens == 9.0
    bucket.give_back(3.0)
    assert bucket.tokens == 10.0


def test_a_changed_rate_counts_from_now_on() -> None:
    bucket = TokenBucket(rate=1.0, burst=10.0, filled_at=0.0)
    bucket.change(rate=5.0, burst=4.0, now=3.0)
    assert bucket.tokens == 3.0, "the tokens that had accrued at the old rate"
    assert bucket.wait_s(4.0, 3.0) == pytest.approx(0.2)
    bucket.change(rate=5.0, burst=2.0, now=10.0)
    assert bucket.tokens == 2.0, "the tokens that fit"


def test_a_clock_set_back_adds_nothing() -> None:
    bucket = TokenBucket(rate=1.0, burst=10.0, filled_at=5.0, tokens=1.0)
    assert bucket.wait_s(2.0, 4.0) == pytest.approx(1.0)
