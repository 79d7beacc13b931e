import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.state.keys import EntryKey
from controller.state.progress import ProgressTracker, coarse_percent
from shared.api.wire import EntryProgress

KEY = ("m", "r1")
LISTED = {KEY: 1000}


class Told:
    """A book, its clock, and what it told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.changes: list[tuple[str, EntryKey]] = []
        self.book = ProgressTracker(lambda: self.now, lambda node, key: self.changes.append((node, key)))

    def report(self, done: int, total: int = 1000, key: EntryKey = KEY) -> None:
        self.book.report("a", [EntryProgress(*key, done, total)], LISTED)


@pytest.fixture
def told() -> Told:
    return Told()


@given(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))
def test_whatever_an_agent_says_the_percentage_is_one(done: int, total: int) -> None:
    percent = coarse_percent(done, total)
    assert 0 <= percent <= 99
    assert percent % 5 == 0 or percent == 99


def test_only_a_visible_step_is_told(told: Told) -> None:
    for done in (0, 10, 20, 49, 50, 99, 100, 1000):
        told.report(done)
    assert told.changes == [("a", KEY)] * 4  # first word, 5 %, 10 %, the last
    assert told.book.of("a", KEY) == (1000, 1000)


def test_entries_that_the_node_does_not_list_are_left_out(told: Told) -> None:
    told.report(5, key=("other", "r1"))
    assert (told.changes, told.book.of("a", ("other", "r1")), told.book.grew_at("a")) == ([], (0, 0), None)


def test_growth_is_dated_and_standing_still_is_not(told: Told) -> None:
    told.report(5)
    told.now = 10
    told.report(6)
    told.now = 20
    told.report(6)
    told.report(3)
    assert told.book.grew_at("a") == 10
    told.report(7)
    assert told.book.grew_at("a") == 20


def test_nodes_that_are_gone_are_forgotten(told: Told) -> None:
    told.report(5)
    told.book.keep_only({"b"})
    assert (told.book.of("a", KEY), told.book.grew_at("a")) == ((0, 0), None)
    told.report(5)
    told.book.clear()
    assert told.book.of("a", KEY) == (0, 0)


def test_reports_that_go_to_and_fro_are_no_growth(told: Told) -> None:
    told.report(0)
    assert told.book.grew_at("a") is None, "no byte has come"
    told.report(500)
    for now in range(10, 1000, 10):
        told.now = now
        told.book.report("a", [], LISTED)
        told.report(0)
        told.report(499)
        told.report(500)
    assert told.book.grew_at("a") == 0


def test_growth_ends_with_the_size_of_the_entry(told: Told) -> None:
    told.report(1000)
    told.now = 10
    told.report(2**60)
    assert told.book.grew_at("a") == 0


def test_a_new_grant_begins_anew(told: Told) -> None:
    told.report(1000)
    told.now = 10
    told.book.begin("a")
    told.report(1)
    assert told.book.grew_at("a") == 10


@given(st.lists(st.one_of(st.none(), st.integers(-5, 2000)), max_size=60))
def test_no_sequence_of_reports_moves_more_often_than_there_are_bytes(reports: list[int | None]) -> None:
    told, moves, last = Told(), 0, None
    for now, done in enumerate(reports, 1):
        told.now = now
        told.book.report("a", [] if done is None else [EntryProgress(*KEY, done, 5)], {KEY: 20})
        moves, last = moves + (told.book.grew_at("a") != last), told.book.grew_at("a")
    assert moves <= 20
