from pathlib import Path

import pytest

from agent.__main__ import check_local_roots


@pytest.mark.parametrize("root", ["store", ".", "store/models/llama", "link"])
def test_a_local_root_that_shares_files_with_the_store_is_refused(root: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(ValueError, match=r"LARDER_LOCAL_ROOTS: .* overlap; choose another"):
        check_local_roots([str(tmp_path / "other"), str(tmp_path / root)], tmp_path / "store")


def test_other_directories_are_ignored(tmp_path: Path) -> None:
    check_local_roots([str(tmp_path / "stores")], tmp_path / "store")
