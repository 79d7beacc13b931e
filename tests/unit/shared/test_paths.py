import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UnsafePath
from shared.paths import check_paths


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/etc/passwd", "../x", "a/../b", "a/..", "./a", "a//b", "a/", "a\0b", "a\\b", ".completed",
        ".completed/x", "a" * 256, "/".join(["d" * 100] * 11), "\ud800", "é" * 128,
    ],
)  # fmt: skip
def test_unsafe_names_are_refused_by_name(path: str) -> None:
    with pytest.raises(UnsafePath, match="rename it at the source"):
        check_paths(["config.json", path])


@pytest.mark.parametrize("path", ["a", "a/b/c.d", "...", "a..b", "sub/.completed", ".gitattributes", "日本語", "a b"])
def test_ordinary_names_pass(path: str) -> None:
    check_paths([path, "config.json"])


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "b/c", "b"], ["x/y/z", "x"]])
def test_names_that_cannot_stand_together(paths: list[str]) -> None:
    with pytest.raises(UnsafePath):
        check_paths(paths)


@given(st.lists(st.text(alphabet="ab./\\\0", max_size=8), max_size=4))
def test_what_passes_stays_below_its_directory(paths: list[str]) -> None:
    try:
        check_paths(paths)
    except UnsafePath:
        return
    for path in paths:
        parts = path.split("/")
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(parts)
    assert len(set(paths)) == len(paths)


def test_a_long_list_is_checked_quickly() -> None:
    check_paths([f"dir{i % 100}/file{i}" for i in range(50_000)])


def test_a_name_that_stands_twice_among_very_many_is_found_in_one_pass() -> None:
    names = [f"f{n}" for n in range(100_000)]
    with pytest.raises(UnsafePath, match="'f99999' is listed twice"):
        check_paths([*names, "f99999"])
