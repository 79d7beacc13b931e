"""When `larder fetch` gives up: time and counters are arguments."""

import pytest

from agent.cli.watch import Watch
from agent.transfer.progress import Progress
from shared.errors import LarderError, Unreachable
from shared.sources.at_hand import HOPELESS_S

SLOW = Unreachable("hardly flows")


@pytest.fixture
def progress() -> Progress:
    return Progress(total=10**9)


def looks(watch: Watch, progress: Progress, *, bytes_a_second: int = 0, trouble_every_s: int = 0) -> LarderError | None:
    """Look every second for three times as long as it takes to give up."""
    for second in range(1, 3 * int(HOPELESS_S)):
        if bytes_a_second:
            progress.receive(bytes_a_second)
        if trouble_every_s and second % trouble_every_s == 0:
            progress.trouble = SLOW
        if hopeless := watch.look(second):
            return hopeless
    return None


def test_a_source_that_only_drips_is_given_up(progress: Progress) -> None:
    assert looks(Watch(progress, 0), progress, bytes_a_second=1, trouble_every_s=20) is SLOW


def test_a_source_that_breaks_off_but_flows_is_not(progress: Progress) -> None:
    assert looks(Watch(progress, 0), progress, bytes_a_second=20_000, trouble_every_s=2) is None


def test_small_files_that_come_one_by_one_are_not(progress: Progress) -> None:
    watch = Watch(progress, 0)
    for second in range(1, 200):
        progress.receive(5)
        progress.traffic.verify(5, 0.0)
        progress.trouble = SLOW
        assert watch.look(second) is None


def test_a_listing_or_an_answer_that_never_comes_is_given_up(progress: Progress) -> None:
    with progress.asking():
        assert isinstance(looks(Watch(progress, 0), progress), Unreachable)
    assert isinstance(looks(Watch(Progress(), 0), Progress()), Unreachable)


def test_a_disk_is_waited_for(progress: Progress) -> None:
    progress.receive(10**9)
    assert looks(Watch(progress, 0), progress) is None
