from collections.abc import Callable

import pytest

from agent.transfer.retry_budget import SharedRetryBudget
from agent.transfer.stall_detector import LEAST_RATE
from shared.errors import AuthDenied, LarderError, RateLimited, Unreachable
from shared.sources.for_commands import POLICY as COMMAND_POLICY
from shared.sources.retry import RetryPolicy, Timing
from tests.builders.clock import Clock

POLICY = RetryPolicy(attempts=3, timeout_s=60, first_s=1, cap_s=10)


def retry_budget(clock: Clock) -> SharedRetryBudget:
    return SharedRetryBudget(POLICY, Timing(clock, lambda _, most: most))


def test_pauses_grow_until_the_budget_is_exhausted() -> None:
    clock = Clock()
    tried = retry_budget(clock)
    for expected in (1.0, 2.0):
        clock.now += 20
        assert tried.pause(Unreachable("gone"), 100) == expected
    clock.now += 20
    with pytest.raises(Unreachable):
        tried.pause(Unreachable("gone"), 100)


def test_retries_are_unlimited_while_bytes_arrive() -> None:
    clock = Clock()
    tried = retry_budget(clock)
    for missing in range(100, 0, -1):
        clock.now += 20
        assert tried.pause(Unreachable("cut"), missing, 1) <= 10


def test_receivers_with_the_same_failure_wait_together() -> None:
    clock = Clock()
    tried = retry_budget(clock)
    clock.now = 20
    assert tried.pause(Unreachable("gone"), 100) == 1.0
    clock.now += 0.25
    assert [tried.pause(Unreachable("gone"), 100) for _ in range(10)] == [0.75] * 10


def requests_of(cut_bytes: int, size: int, *, seconds: float = 10**9, receivers: int = 1) -> tuple[int, float]:
    """Return how many requests a server gets that cuts every answer after so many bytes, and the seconds waited.

    It ends when the file is whole, or after `seconds`; the bytes themselves take no time.
    """
    clock = Clock()
    tried = SharedRetryBudget(RetryPolicy(), Timing(clock, lambda _, most: most))
    asks_at, left, asked = [0.0] * receivers, size, 0
    while left > 0 and (now := min(asks_at)) < seconds:
        clock.now = now
        asked += 1
        left -= cut_bytes
        asks_at[asks_at.index(now)] += tried.pause(Unreachable("cut"), left, cut_bytes)
    return asked, clock.now


@pytest.mark.parametrize("receivers", [1, 4, 16])
@pytest.mark.parametrize("cut_bytes", [1, 1000, 4096, 10_000])
def test_requests_to_a_server_that_truncates_every_response_early_become_rare(cut_bytes: int, receivers: int) -> None:
    asked, _ = requests_of(cut_bytes, 10**12, seconds=70, receivers=receivers)
    assert 5 * receivers <= asked <= 100 * receivers


def test_a_server_that_truncates_long_responses_gets_the_next_request_without_delay() -> None:
    asked, waited_s = requests_of(50 * 10**6, 5 * 10**9)
    assert asked == 100
    assert waited_s < 0.1


def test_frequently_truncated_responses_still_allow_the_lowest_acceptable_rate() -> None:
    _, waited_s = requests_of(16 * 1024, 10**7)
    assert 10**7 / waited_s >= LEAST_RATE * 0.9


def test_real_progress_resets_the_pauses() -> None:
    clock = Clock()
    tried = SharedRetryBudget(RetryPolicy(), Timing(clock, lambda _, most: most))
    pauses = []
    for left, brought in ((100, 1), (99, 1), (98, 1), (97, 1), (96, 2**20), (95, 0)):
        clock.now += 100
        pauses.append(tried.pause(Unreachable("cut"), left, brought))
    assert pauses == [0.5, 1.0, 2.0, 4.0, 0.5 / 64, 0.5]


def test_an_occasional_failure_between_successes_does_not_lengthen_the_pauses() -> None:
    clock = Clock()
    tried = SharedRetryBudget(RetryPolicy(), Timing(clock, lambda _, most: most))
    for left in range(100, 90, -1):
        clock.now += 600
        assert tried.pause(Unreachable("503"), left) == 0.5
        tried.succeed()


def test_a_receiver_without_bytes_backs_off_although_another_makes_progress() -> None:
    clock = Clock()
    tried = SharedRetryBudget(POLICY, Timing(clock, lambda _, most: most))
    pauses = []
    for missing in range(6, 0, -1):
        clock.now += 20
        pauses.append(tried.pause(Unreachable("gone"), missing))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_an_error_with_its_own_limit_of_tries_is_raised_after_them() -> None:
    clock = Clock()
    tried = retry_budget(clock)
    wrong = Unreachable("compressed", tries=2)
    assert tried.pause(wrong, 100) == 1.0
    assert tried.pause(wrong, 100) == 5.0
    clock.now = 1.0
    with pytest.raises(Unreachable):
        tried.pause(wrong, 100)


def test_a_shorter_wait_of_one_receiver_does_not_shorten_that_of_others() -> None:
    clock = Clock()
    tried = retry_budget(clock)
    clock.now = 1
    tried.pause(Unreachable("gone"), 100)
    assert tried.pause(RateLimited("later", 20), 100) >= 20
    assert tried.pause(Unreachable("gone"), 100) >= 20
    assert tried.pause(Unreachable("cut"), 99, 2**20) < 1
    assert tried.pause(Unreachable("gone"), 99) >= 20


def test_a_failure_that_needs_action_is_raised_even_while_others_wait() -> None:
    tried = retry_budget(Clock())
    tried.pause(Unreachable("gone"), 100)
    with pytest.raises(AuthDenied):
        tried.pause(AuthDenied("no"), 100)


def test_a_requested_wait_beyond_the_budget_raises_rate_limited() -> None:
    with pytest.raises(RateLimited):
        retry_budget(Clock()).pause(RateLimited("later", 3600), 100)


def waits(policy: RetryPolicy, failure: Callable[[float], LarderError | None], receivers: int) -> float:
    """Return when a server that fails like this serves its file; raises the error that ends the retries."""
    clock = Clock()
    tried = SharedRetryBudget(policy, Timing(clock, lambda least, most: (least + most) / 2))
    asks_at = [0.0] * receivers
    while True:
        clock.now = min(asks_at)
        error = failure(clock.now)
        if error is None:
            return clock.now
        asks_at[asks_at.index(clock.now)] += tried.pause(error, 100) + 0.01


@pytest.mark.parametrize("receivers", [1, 4])
@pytest.mark.parametrize("after_s", [0, 5, 30, 60])
@pytest.mark.parametrize("policy", [RetryPolicy(), COMMAND_POLICY], ids=["agent", "command line"])
def test_a_download_waits_a_minute_if_the_server_requests_it(
    policy: RetryPolicy, after_s: float, receivers: int
) -> None:
    starting = [Unreachable("just started"), None]

    def failure(now: float) -> LarderError | None:
        return RateLimited("later", after_s) if now < 60 else starting.pop(0)

    assert waits(policy, failure, receivers) <= 60 + after_s + 2 * policy.cap_s


def test_a_download_waits_for_a_server_that_is_down_briefly() -> None:
    assert waits(COMMAND_POLICY, lambda now: Unreachable("down") if now < 33 else None, 1) < 40
    with pytest.raises(Unreachable):
        waits(COMMAND_POLICY, lambda now: Unreachable("down") if now < 60 else None, 1)
