from hypothesis import given
from hypothesis import strategies as st

from controller.sources.rate_limits import KeyedRateLimiter, Rate
from tests.builders.clock import Clock


@given(st.lists(st.floats(0, 3), min_size=1, max_size=200), st.integers(1, 10), st.sampled_from([0.5, 1.0, 7.0]))
def test_burst_and_rate_limit_the_tokens_that_are_taken(pauses: list[float], burst: int, per_s: float) -> None:
    clock = Clock()
    buckets = KeyedRateLimiter(Rate(per_s, burst), clock)
    taken = list[float]()
    for pause_s in pauses:
        clock.now += pause_s
        wait_s = buckets.draw("a")
        assert 0 <= wait_s <= 1 / per_s + 1e-6
        if not wait_s:
            taken.append(clock.now)
            window = [at for at in taken if at >= taken[0]]
            assert len(window) <= burst + (clock.now - taken[0]) * per_s + 1e-6
        else:
            clock.now += wait_s
            assert buckets.draw("a") == 0, "the stated wait is correct"
            taken.append(clock.now)


def test_tokens_given_back_can_be_taken_again() -> None:
    clock = Clock()
    buckets = KeyedRateLimiter(Rate(1, 2), clock)
    for _ in range(50):
        assert buckets.draw("a") == 0
        buckets.give_back("a")
    assert [buckets.draw("a") for _ in range(3)] == [0, 0, 1]


def test_the_least_recently_used_bucket_is_forgotten() -> None:
    clock = Clock()
    buckets = KeyedRateLimiter(Rate(1, 1), clock, most=3)
    for name in ("a", "b", "c", "a", "d"):
        buckets.draw(name)
    assert len(buckets) == 3
    assert buckets.draw("a") > 0
    assert buckets.draw("b") == 0
