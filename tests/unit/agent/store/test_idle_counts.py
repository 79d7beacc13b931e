from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.store.idle_counts import IdleCount, count_round, read_counts, write_counts


def test_the_idle_count_of_a_file_grows_each_round_until_it_changes() -> None:
    first = count_round({}, {"a": 5, "b": 5})
    second = count_round(first, {"a": 5, "b": 4, "c": 1})
    assert second == {"a": IdleCount(5, 1), "b": IdleCount(4, 0), "c": IdleCount(1, 0)}
    assert count_round(second, {"a": 5}) == {"a": IdleCount(5, 2)}


@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=20))
def test_the_idle_count_is_the_number_of_equal_time_stamps_in_a_row(stamps: list[int]) -> None:
    counts: dict[str, IdleCount] = {}
    for stamp in stamps:
        counts = count_round(counts, {"a": stamp})
    same = 0
    for stamp in reversed(stamps[:-1]):
        if stamp != stamps[-1]:
            break
        same += 1
    assert counts["a"].rounds == same


def test_idle_counts_survive_a_restart_and_a_damaged_record_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "idle.json"
    assert read_counts(path) == {}
    write_counts(path, {"a": IdleCount(5, 7)})
    assert read_counts(path) == {"a": IdleCount(5, 7)}
    for damaged in (b'{"a": [5', b'{"\xff": {"stamp": 5, "rounds": 7}}'):
        path.write_bytes(damaged)
        assert read_counts(path) == {}
