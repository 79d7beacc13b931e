"""Several archives of one model: their files must not conflict, and the limits apply to all of them together."""

import pytest

from agent.archive.members import (
    ArchiveEntry,
    ArchiveTotals,
    MemberType,
    Oversize,
    UnpackLimits,
    check_together,
    count_names,
    decide_members,
)
from shared.errors import TooManyFiles, UnsafePath

LIMITS = UnpackLimits(100)


def entries(*names: str, size: int = 1) -> list[ArchiveEntry]:
    return [ArchiveEntry(name, MemberType.FILE, size) for name in names]


def test_archives_may_share_directories() -> None:
    check_together({"": ["config.json", "d/x"], "a.tar": ["d/a", "d/e/a"], "b.tar": ["d/b", "d/e/b"]}, LIMITS)


def test_conflicts_among_the_sources_own_files_are_not_checked() -> None:
    check_together({"": ["README", "readme"], "a.tar": ["a"]}, LIMITS)


@pytest.mark.parametrize(
    ("one", "other", "phrase"),
    [
        ("w", "w", "the file 'w' in 'a.tar' and the file 'w' in 'b.tar', which cannot both exist"),
        ("d", "d/w", "the file 'd' in 'a.tar' and the directory 'd' in 'b.tar', which cannot both exist"),
        ("d/w", "d", "the directory 'd' in 'a.tar' and the file 'd' in 'b.tar', which cannot both exist"),
        ("W", "w", "the file 'W' in 'a.tar' and the file 'w' in 'b.tar', which some file systems treat as the same"),
        ("d/a", "D/b", "the directory 'd' in 'a.tar' and the directory 'D' in 'b.tar', which some file systems"),
        ("caf\u00e9", "cafe\u0301", "which some file systems treat as the same"),
    ],
)
def test_conflicting_names_of_two_archives_are_refused_and_both_named(one: str, other: str, phrase: str) -> None:
    with pytest.raises(UnsafePath, match=phrase):
        check_together({"a.tar": ["x", one], "b.tar": [other]}, LIMITS)


def test_a_conflict_with_a_file_outside_the_archives_is_refused() -> None:
    with pytest.raises(UnsafePath, match=r"the file 'w' outside the archives and the file 'w' in 'a.tar'"):
        check_together({"": ["w"], "a.tar": ["w"]}, LIMITS)


def test_the_member_limit_applies_to_all_archives_together() -> None:
    totals, limits = ArchiveTotals(), UnpackLimits(100, 4)
    decide_members([ArchiveEntry("d", MemberType.DIRECTORY), *entries("a", "b")], limits, totals)
    decide_members(entries("c"), limits, totals)
    with pytest.raises(TooManyFiles, match="the archives have more than 4 members"):
        decide_members(entries("e"), limits, totals)


def test_members_of_archives_unpacked_before_count_towards_the_limit() -> None:
    totals, limits = ArchiveTotals(), UnpackLimits(100, 4)
    count_names(["d/a", "d/b"], limits, totals)
    decide_members(entries("c"), limits, totals)
    with pytest.raises(TooManyFiles, match="the archives have more than 4 members"):
        decide_members(entries("e"), limits, totals)


def test_archives_and_the_files_beside_them_share_one_limit() -> None:
    check_together({"": ["d/a"], "a.tar": ["d/b"], "b.tar": ["d/c"]}, UnpackLimits(0, 4))
    with pytest.raises(TooManyFiles, match="the model has more than 4 members"):
        check_together({"": ["e/a"], "a.tar": ["d/b"], "b.tar": ["d/c"]}, UnpackLimits(0, 4))


def test_the_size_limit_applies_to_all_archives_together() -> None:
    totals, limits = ArchiveTotals(), UnpackLimits(100, 9)
    decide_members(entries("a", size=60), limits, totals)
    decide_members(entries("b", size=40), limits, totals)
    with pytest.raises(Oversize) as raised:
        decide_members(entries("c"), limits, totals)
    assert raised.value.size_bytes == 101
