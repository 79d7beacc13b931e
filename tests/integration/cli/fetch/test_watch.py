"""When `larder fetch` gives up: time and counters are arguments."""

import pytest

from agent.cli.stall_watch import StallWatch
from agent.transfer.progress import Progress
from shared.errors import LarderError, RateLimited, Unreachable
from shared.sources.for_commands import POLICY, STALL_TIMEOUT_S

SLOW = Unreachable("hardly flows")


@pytest.fixture
def progress() -> Progress:
    return Progress(total=10**9)


def looks(
    watch: StallWatch, progress: Progress, *, bytes_a_second: int = 0, trouble_every_s: int = 0
) -> LarderError | None:
    """Check every second for three times the stall timeout."""
    for second in range(1, 3 * int(STALL_TIMEOUT_S)):
        if bytes_a_second:
            progress.count_received(bytes_a_second)
        if trouble_every_s and second % trouble_every_s == 0:
            progress.failure = SLOW
        if hopeless := watch.check(second):
            return hopeless
    return None


def test_a_source_that_delivers_too_slowly_is_abandoned(progress: Progress) -> None:
    assert looks(StallWatch(progress, 0), progress, bytes_a_second=1, trouble_every_s=20) is SLOW


def test_an_often_interrupted_source_that_delivers_enough_bytes_is_not_abandoned(progress: Progress) -> None:
    assert looks(StallWatch(progress, 0), progress, bytes_a_second=20_000, trouble_every_s=2) is None


def test_small_files_arriving_one_by_one_are_not_taken_for_a_stall(progress: Progress) -> None:
    watch = StallWatch(progress, 0)
    for second in range(1, 200):
        progress.count_received(5)
        progress.traffic.count_verified(5, 0.0)
        progress.failure = SLOW
        assert watch.check(second) is None


def test_a_listing_or_an_answer_that_never_arrives_is_abandoned(progress: Progress) -> None:
    with progress.requesting():
        assert isinstance(looks(StallWatch(progress, 0), progress), Unreachable)
    assert isinstance(looks(StallWatch(Progress(), 0), Progress()), Unreachable)


def test_a_slow_disk_is_not_taken_for_a_stall(progress: Progress) -> None:
    progress.count_received(10**9)
    assert looks(StallWatch(progress, 0), progress) is None


def test_a_source_is_not_abandoned_during_a_wait_that_it_requested(progress: Progress) -> None:
    for begun in (progress, Progress()):
        watch = StallWatch(begun, 0)
        with begun.requesting():
            for second in range(1, 100):
                begun.failure = RateLimited("later", 5) if second % 5 == 1 else begun.failure
                assert watch.check(second) is None


def test_a_source_that_stays_silent_after_a_requested_wait_is_abandoned(progress: Progress) -> None:
    watch = StallWatch(progress, 0)
    asked = progress.failure = RateLimited("later", 60)
    assert [watch.check(second) for second in range(1, 61 + int(STALL_TIMEOUT_S))] == [None] * (
        60 + int(STALL_TIMEOUT_S)
    )
    assert watch.check(61 + STALL_TIMEOUT_S) is asked


def test_a_server_that_keeps_requesting_time_is_abandoned(progress: Progress) -> None:
    watch = StallWatch(progress, 0)
    for second in range(1, int(POLICY.rate_limit_timeout_s + STALL_TIMEOUT_S)):
        progress.failure = RateLimited("later", 5)
        assert watch.check(second) is None
    assert watch.check(POLICY.rate_limit_timeout_s + STALL_TIMEOUT_S) is progress.failure


def test_a_listing_received_after_a_long_wait_renews_the_stall_deadline() -> None:
    progress = Progress()
    watch = StallWatch(progress, 0)
    progress.failure = RateLimited("later", 100)
    watch.check(0)
    progress.failure, progress.total = SLOW, 10**9
    for second in range(140, 140 + int(STALL_TIMEOUT_S)):
        assert watch.check(second) is None
    assert watch.check(140 + STALL_TIMEOUT_S) is SLOW


def test_skipped_bytes_of_a_server_that_ignores_ranges_count_as_progress(progress: Progress) -> None:
    watch = StallWatch(progress, 0)
    progress.failure = SLOW  # the connection broke before
    watch.check(0)
    for second in range(1, 3 * int(STALL_TIMEOUT_S)):
        progress.count_skipped(20_000)
        assert watch.check(second) is None
