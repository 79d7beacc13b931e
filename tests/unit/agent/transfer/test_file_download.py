from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.file_download import SMALL_BYTES, split_by_size
from shared.manifest import File


@given(st.lists(st.integers(0, 3 * SMALL_BYTES), max_size=30))
def test_files_are_split_by_size_and_sorted_largest_first(sizes: list[int]) -> None:
    files = [File(f"f{n}", size) for n, size in enumerate(sizes)]
    large, small = split_by_size(files)
    assert sorted([*large, *small], key=lambda f: f.path) == sorted(files, key=lambda f: f.path)
    assert all(f.size > SMALL_BYTES for f in large)
    assert all(f.size <= SMALL_BYTES for f in small)
    for group in (large, small):
        assert [f.size for f in group] == sorted((f.size for f in group), reverse=True)
