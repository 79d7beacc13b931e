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
def test_unsafe_names_are_refused_with_a_remedy(path: str) -> None:
    with pytest.raises(UnsafePath, match="rename it at the source"):
        check_paths(["config.json", path])


@pytest.mark.parametrize("path", ["a", "a/b/c.d", "...", "a..b", "sub/.completed", ".gitattributes", "日本語", "a b"])
def test_ordinary_names_pass(path: str) -> None:
    check_paths([path, "config.json"])


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "b/c", "b"], ["x/y/z", "x"]])
def test_conflicting_paths_are_refused(paths: list[str]) -> None:
    with pytest.raises(UnsafePath):
        check_paths(paths)


@given(st.lists(st.text(alphabet="ab./\\\0", max_size=8), max_size=4))
def test_accepted_paths_stay_below_their_directory(paths: list[str]) -> None:
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


def test_deep_names_that_imply_too_many_directories_are_refused() -> None:
    paths = [f"{n:05d}/{'a/' * 500}f" for n in range(40)]
    check_paths(paths[:39])
    with pytest.raises(UnsafePath, match="more than 20000 directories"):
        check_paths(paths)


def test_shared_directories_count_once() -> None:
    check_paths([f"{'a/' * 500}f{n}" for n in range(1_000)])


@given(st.lists(st.text(alphabet="ab.-/", min_size=1, max_size=7), max_size=6, unique=True))
def test_a_file_below_a_file_is_always_found(paths: list[str]) -> None:
    clash = any(other.startswith(f"{path}/") for path in paths for other in paths)
    try:
        check_paths(paths)
        found = ""
    except UnsafePath as error:
        found = str(error)
    assert clash if "as a directory" in found else found or not clash


def test_a_duplicate_among_many_thousand_names_is_found() -> None:
    names = [f"f{n}" for n in range(100_000)]
    with pytest.raises(UnsafePath, match="'f99999' is listed twice"):
        check_paths([*names, "f99999"])
