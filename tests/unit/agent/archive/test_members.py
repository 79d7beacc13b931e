import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.archive.formats import ArchiveFormat, format_of
from agent.archive.members import ArchiveEntry, Member, MemberType, Oversize, UnpackLimits, decide_members
from shared.archives import find_archives
from shared.errors import InvalidURI, LarderError, TooManyFiles, UnsafePath
from shared.manifest import File
from shared.paths import check_paths

LIMITS = UnpackLimits(1_000, 10)


def file(name: str, size: int = 1, mode: int = 0o644) -> ArchiveEntry:
    return ArchiveEntry(name, MemberType.FILE, size, mode)


def directory(name: str, mode: int = 0o755) -> ArchiveEntry:
    return ArchiveEntry(name, MemberType.DIRECTORY, 0, mode)


def symbolic(name: str, target: str) -> ArchiveEntry:
    return ArchiveEntry(name, MemberType.SYMBOLIC_LINK, target=target)


def hard(name: str, target: str) -> ArchiveEntry:
    return ArchiveEntry(name, MemberType.HARD_LINK, target=target)


@pytest.mark.parametrize(
    ("names", "archive_format"),
    [
        (["m.tar"], ArchiveFormat.TAR),
        (["m.tar.gz"], ArchiveFormat.TAR_GZIP),
        (["m.TGZ"], ArchiveFormat.TAR_GZIP),
        (["m.zip"], ArchiveFormat.ZIP),
        (["m.bin"], None),
        ([".zip"], None),
        (["m.gz"], None),
        (["a.tar", "b.tar"], None),
        (["a.tar", "config.json"], None),
        ([], None),
    ],
)
def test_only_a_single_file_is_recognised_as_an_archive_by_its_name(
    names: list[str], archive_format: ArchiveFormat | None
) -> None:
    assert [format_of(file) for file in find_archives([File(name, 1) for name in names])] == (
        [archive_format] if archive_format else []
    )


def test_archives_marked_by_the_source_are_unpacked_whatever_their_names_and_number() -> None:
    declared = [File("weights", 1, archive="tar"), File("w.bin", 1, archive="tar.gz")]
    assert find_archives([File("m.zip", 1), *declared]) == declared
    assert [format_of(file) for file in declared] == [ArchiveFormat.TAR, ArchiveFormat.TAR_GZIP]


def test_an_archive_that_only_a_newer_version_knows_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidURI, match=r"'w' is packed as 'tar.zst', which this version cannot unpack; upgrade"):
        format_of(File("w", 1, archive="tar.zst"))


def test_files_and_links_become_members_with_their_contents_path_and_directories_do_not() -> None:
    entries = [
        directory("./"), directory("./d/"), file("./d/a", 3), symbolic("./d/b", "a"), symbolic("c", "d/../d/b"),
        hard("e", "./d/a"), file("empty", 0),
    ]  # fmt: skip
    assert decide_members(entries, LIMITS) == (
        Member("c", 3, "d/a"),
        Member("d/a", 3, "d/a"),
        Member("d/b", 3, "d/a"),
        Member("e", 3, "d/a"),
        Member("empty", 0, "empty"),
    )


@pytest.mark.parametrize(
    ("entries", "phrase"),
    [
        ([file("/etc/passwd")], "absolute"),
        ([file("../x")], "be outside its directory"),
        ([file("a/../../x")], "be outside its directory"),
        ([file("a//b")], "be outside its directory"),
        ([file("a\0b")], "NUL"),
        ([file("a\\..\\b")], "backslash"),
        ([file("")], "be outside its directory"),
        ([file(".completed")], "reserved for Larder"),
        ([file("x" * 256)], "too long"),
        ([file("\udcff")], "Unicode"),
        ([directory("../d")], "be outside its directory"),
        ([directory("/d")], "absolute"),
        ([directory("x" * 256)], "too long"),
        ([file("a"), file("a")], "twice"),
        ([file("a"), file("./a")], "twice"),
        ([file("a"), symbolic("a", "b"), file("b")], "twice"),
        ([file("a"), file("a/b")], "as a file and as a directory"),
        ([file("a"), directory("a")], "as a file and as a directory"),
        ([file("a"), directory("a/b")], "as a file and as a directory"),
        ([symbolic("a", "b"), file("a/x"), file("b")], "as a file and as a directory"),
        ([file("A/x"), file("a/y")], "treat as the same"),
        ([file("straße"), file("STRASSE")], "treat as the same"),
        ([file("\u00e9"), file("e\u0301")], "treat as the same"),
        ([file("d"), directory("D")], "treat as the same"),
        ([symbolic("a", "/etc/passwd")], "points outside"),
        ([symbolic("a", "../x")], "points outside"),
        ([symbolic("d/a", "../../x")], "points outside"),
        ([symbolic("a", "")], "points outside"),
        ([symbolic("a", "..")], "points outside"),
        ([hard("d/a", "../x")], "points outside"),
        ([hard("a", "/x")], "points outside"),
        ([symbolic("a", "./" * 600 + "good")], "too long"),
        ([symbolic("a", "missing")], "no file"),
        ([symbolic("a", "a")], "no file"),
        ([symbolic("a", "b"), symbolic("b", "a")], "no file"),
        ([directory("d"), file("d/x"), symbolic("a", "d")], "no file"),
        ([ArchiveEntry("dev", MemberType.OTHER)], "neither a file"),
        ([file("a", mode=0o4755)], "setuid"),
        ([file("a", mode=0o2755)], "setuid"),
        ([hard("b", "a"), file("a", -1)], "size of -1"),
        ([file("a", 2**62 + 1)], "more bytes, up to 'a', than any disk can hold"),
        ([file("a", 10**240)], "than any disk can hold"),
    ],
)
def test_a_single_unsafe_member_fails_the_whole_archive(entries: list[ArchiveEntry], phrase: str) -> None:
    with pytest.raises(UnsafePath, match=phrase):
        decide_members([file("good"), *entries], LIMITS)


def test_a_directory_may_have_the_setgid_bit() -> None:
    assert decide_members([directory("d", 0o2755), file("d/a")], LIMITS) == (Member("d/a", 1, "d/a"),)


def test_listing_stops_at_the_limits_of_bytes_and_members() -> None:
    assert decide_members([file("a", 600), file("b", 400)], LIMITS)

    def endless(size: int) -> object:
        for number in range(1_000_000):
            assert number < 20, "the list was read beyond the limit"
            yield file(str(number), size)

    with pytest.raises(Oversize) as raised:
        decide_members(endless(600), LIMITS)  # type: ignore[arg-type]  # a generator
    assert raised.value.size_bytes == 1_200
    with pytest.raises(TooManyFiles, match="more than 10 members"):
        decide_members(endless(0), LIMITS)  # type: ignore[arg-type]  # as above
    with pytest.raises(TooManyFiles):
        decide_members([directory(f"d{number}") for number in range(11)], LIMITS)


def test_implied_directories_count_once_each() -> None:
    assert decide_members([file(f"d/e/{number}") for number in range(8)], LIMITS)
    listed = [file("d/e/0"), directory("d"), directory("d/e/"), *(file(f"d/e/{number}") for number in range(1, 8))]
    assert decide_members(listed, LIMITS)
    with pytest.raises(TooManyFiles, match="more than 10 members, counting every directory above a file"):
        decide_members([file(f"d/e/{number}") for number in range(9)], LIMITS)
    with pytest.raises(TooManyFiles):
        decide_members([file("/".join("abcdefghijk"))], LIMITS)
    with pytest.raises(TooManyFiles):
        decide_members([directory("d")] * 11, LIMITS)


def test_deep_names_take_no_memory_beyond_the_limit() -> None:
    read: list[int] = []

    def deep() -> Iterator[ArchiveEntry]:
        for number in range(2_000):
            read.append(number)
            yield file(f"{number:05d}/{'a/' * 504}a")

    tracemalloc.start()
    try:
        with pytest.raises(TooManyFiles):
            decide_members(deep(), UnpackLimits(10_000))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(read) == 20_000 // 506 + 1
    assert peak_bytes < 30_000_000


def test_a_sum_of_sizes_beyond_63_bits_is_refused() -> None:
    assert decide_members([file("a", 2**61)], UnpackLimits(2**63))
    with pytest.raises(UnsafePath, match="up to 'c', than any disk can hold"):
        decide_members([file("a", 2**61), file("b", 2**61), file("c")], UnpackLimits(2**63))


NAMES = st.lists(st.sampled_from(["a", "b", "A", "..", ".", "", "é", "\0"]), min_size=1, max_size=4).map("/".join)
ENTRIES = st.builds(
    ArchiveEntry, NAMES, st.sampled_from(MemberType), st.integers(-1, 300), st.sampled_from([0o644, 0o4755]), NAMES
)


@given(st.lists(ENTRIES, max_size=8))
def test_accepted_members_are_distinct_safe_and_within_the_limits(entries: list[ArchiveEntry]) -> None:
    try:
        members = decide_members(entries, LIMITS)
    except (LarderError, Oversize):
        return
    check_paths([member.path for member in members])
    own = {member.path: member for member in members if member.content_path == member.path}
    assert all(own[member.content_path].size == member.size for member in members)
    assert sum(member.size for member in own.values()) <= LIMITS.bytes
    assert len({member.path.casefold() for member in members}) == len(members)
