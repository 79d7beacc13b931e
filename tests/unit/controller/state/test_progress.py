import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.state.keys import EntryKey
from controller.state.progress import ProgressTracker, coarse_percent
from shared.api.wire import EntryProgress

KEY = ("m", "r1")
LISTED = {KEY: 1000}


class Recorded:
    """The progress of downloads, its clock, and the changes that it reported."""

    def __init__(self) -> None:
        self.now = 0.0
        self.changes: list[tuple[str, EntryKey]] = []
        self.progress = ProgressTracker(lambda: self.now, lambda node, key: self.changes.append((node, key)))

    def report(self, done: int, total: int = 1000, key: EntryKey = KEY) -> None:
        self.progress.report("a", [EntryProgress(*key, done, total)], LISTED)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@given(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))
def test_the_percentage_is_valid_whatever_an_agent_reports(done: int, total: int) -> None:
    percent = coarse_percent(done, total)
    assert 0 <= percent <= 99
    assert percent % 5 == 0 or percent == 99


def test_only_a_visible_step_is_reported(recorded: Recorded) -> None:
    for done in (0, 10, 20, 49, 50, 99, 100, 1000):
        recorded.report(done)
    assert recorded.changes == [("a", KEY)] * 4  # the first report, 5 %, 10 %, the last
    assert recorded.progress.of("a", KEY) == (1000, 1000)


def test_entries_that_the_node_does_not_list_are_left_out(recorded: Recorded) -> None:
    recorded.report(5, key=("other", "r1"))
    assert (recorded.changes, recorded.progress.of("a", ("other", "r1")), recorded.progress.grew_at("a")) == (
        [],
        (0, 0),
        None,
    )


def test_only_growth_updates_the_time_of_the_last_progress(recorded: Recorded) -> None:
    recorded.report(5)
    recorded.now = 10
    recorded.report(6)
    recorded.now = 20
    recorded.report(6)
    recorded.report(3)
    assert recorded.progress.grew_at("a") == 10
    recorded.report(7)
    assert recorded.progress.grew_at("a") == 20


def test_nodes_that_are_gone_are_forgotten(recorded: Recorded) -> None:
    recorded.report(5)
    recorded.progress.keep_only({"b"})
    assert (recorded.progress.of("a", KEY), recorded.progress.grew_at("a")) == ((0, 0), None)
    recorded.report(5)
    recorded.progress.clear()
    assert recorded.progress.of("a", KEY) == (0, 0)


def test_alternating_reports_do_not_count_as_growth(recorded: Recorded) -> None:
    recorded.report(0)
    assert recorded.progress.grew_at("a") is None, "no byte was received"
    recorded.report(500)
    for now in range(10, 1000, 10):
        recorded.now = now
        recorded.progress.report("a", [], LISTED)
        recorded.report(0)
        recorded.report(499)
        recorded.report(500)
    assert recorded.progress.grew_at("a") == 0


def test_progress_beyond_the_size_of_the_entry_does_not_count(recorded: Recorded) -> None:
    recorded.report(1000)
    recorded.now = 10
    recorded.report(2**60)
    assert recorded.progress.grew_at("a") == 0


def test_a_new_grant_resets_the_progress(recorded: Recorded) -> None:
    recorded.report(1000)
    recorded.now = 10
    recorded.progress.begin("a")
    recorded.report(1)
    assert recorded.progress.grew_at("a") == 10


@given(st.lists(st.one_of(st.none(), st.integers(-5, 2000)), max_size=60))
def test_progress_advances_at_most_once_per_byte_of_the_model(reports: list[int | None]) -> None:
    recorded, steps, last = Recorded(), 0, None
    for now, done in enumerate(reports, 1):
        recorded.now = now
        recorded.progress.report("a", [] if done is None else [EntryProgress(*KEY, done, 5)], {KEY: 20})
        steps, last = steps + (recorded.progress.grew_at("a") != last), recorded.progress.grew_at("a")
    assert steps <= 20
