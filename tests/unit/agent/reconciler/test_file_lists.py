"""Lists of files in memory: added before a download, dropped after it, remembered by size when refused."""

import pytest

from agent.reconciler.file_lists import DEFAULT_BYTES, FileLists, capacity_bytes
from agent.store.list_size import ListSize
from shared.errors import TooManyFilesOnNode

KEY, OTHER = ("a_new", "r1"), ("a_old", "r1")
LARGE = ListSize(10, 600)


def full() -> FileLists:
    lists = FileLists(1000)
    lists.set_snapshots({OTHER: ListSize(10, 400)})
    return lists


def test_a_refused_list_is_refused_without_looking_at_it_again_until_there_is_room() -> None:
    lists = full()
    lists.check(KEY, "m1")
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", LARGE)
    with pytest.raises(TooManyFilesOnNode):
        lists.check(KEY, "m1")
    lists.check(KEY, "m2")
    lists.set_snapshots({})
    lists.check(KEY, "m1")
    lists.add(KEY, "m1", LARGE)


def test_the_files_of_a_refused_archive_count_from_the_start_of_the_next_attempt() -> None:
    lists = full()
    lists.add(KEY, "m1", ListSize(1, 10))
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", LARGE)
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", ListSize(1, 10))
    lists.add(KEY, "m2", ListSize(1, 10))


def test_a_refused_list_takes_no_room_from_others() -> None:
    lists = full()
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", LARGE)
    lists.add(("b_new", "r1"), "m2", ListSize(10, 500))


def test_a_dropped_list_makes_room() -> None:
    lists = FileLists(1000)
    lists.add(OTHER, "m1", ListSize(10, 500))
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", LARGE)
    lists.drop(OTHER)
    lists.add(KEY, "m1", LARGE)


def test_sizes_of_entries_that_are_gone_are_forgotten() -> None:
    lists = full()
    with pytest.raises(TooManyFilesOnNode):
        lists.add(KEY, "m1", LARGE)
    lists.forget_refused({OTHER})
    lists.check(KEY, "m1")


def test_half_of_the_memory_limit_is_for_lists() -> None:
    assert capacity_bytes(2**30) == DEFAULT_BYTES
    assert capacity_bytes(0) == DEFAULT_BYTES
    assert capacity_bytes(2**40) == 2 * 2**30
