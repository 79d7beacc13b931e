import threading

from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.rate_limit import RateLimiter, bucket_of
from shared.token_bucket import TokenBucket


def limit(rate: float) -> TokenBucket:
    bucket = bucket_of(rate, 0.0)
    assert bucket is not None
    return bucket


@given(
    rate=st.floats(1e3, 1e9),
    sizes=st.lists(st.floats(0.001, 0.05), min_size=60, max_size=60),
    pauses=st.lists(st.floats(0, 0.3), min_size=60, max_size=60),
)
def test_over_any_five_seconds_the_cap_holds_within_five_percent(
    rate: float, sizes: list[float], pauses: list[float]
) -> None:
    now, bucket, moved = 0.0, limit(rate), list[tuple[float, int]]()
    for share, pause_s in zip(sizes, pauses, strict=True):
        now += pause_s
        size = max(1, int(rate * share))
        while wait_s := bucket.draw(size, now):
            now += wait_s + 1e-9
        moved.append((now, size))
    for start, _ in moved:
        assert sum(size for at, size in moved if start <= at < start + 5) <= rate * 5 * 1.05


@given(rate=st.floats(1e3, 1e9))
def test_a_caller_that_never_pauses_gets_the_whole_rate(rate: float) -> None:
    now, bucket, moved = 0.0, limit(rate), 0
    size = max(1, int(rate * 0.05))
    while now < 10:
        if wait_s := bucket.draw(size, now):
            now += wait_s + 1e-9
        else:
            moved += size
    assert moved >= rate * 10 * 0.97


def test_without_a_rate_nothing_is_limited() -> None:
    assert bucket_of(0.0, 0.0) is None
    assert RateLimiter().take(10**15, threading.Event())
    assert RateLimiter().chunk_bytes(2**20) == 2**20


def test_a_draw_larger_than_the_bucket_makes_the_next_one_wait() -> None:
    bucket = limit(1000)
    assert bucket.draw(5000, 1.0) == 0
    assert 4.9 < bucket.draw(100, 1.0) < 5.1


def test_tokens_given_back_can_be_drawn_again_but_not_saved_up() -> None:
    bucket = limit(1000)
    assert bucket.draw(100, 1.0) == 0
    bucket.give_back(100)
    bucket.give_back(10**6)
    assert bucket.draw(100, 1.0) == 0
    assert bucket.draw(100, 1.0) > 0


def test_a_changed_rate_wakes_those_who_wait() -> None:
    bucket, moved = RateLimiter(1.0), threading.Event()
    bucket.take(1, threading.Event())

    def move() -> None:
        bucket.take(10**6, threading.Event())
        moved.set()

    threading.Thread(target=move, daemon=True).start()
    assert not moved.wait(0.05)
    bucket.set_rate(0)
    assert moved.wait(60)
    assert bucket.rate == 0


def test_stop_ends_the_wait() -> None:
    bucket, stop = RateLimiter(1.0), threading.Event()
    bucket.take(10**6, stop)
    stop.set()
    assert not bucket.take(10, stop), "it would last for days"


def test_a_lower_rate_makes_reads_smaller() -> None:
    assert RateLimiter(10**9).chunk_bytes(2**20) == 2**20
    assert RateLimiter(10**6).chunk_bytes(2**20) == 50_000
    assert RateLimiter(1).chunk_bytes(2**20) == 4096
