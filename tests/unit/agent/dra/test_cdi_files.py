from pathlib import Path

import pytest

from agent.dra.cdi_files import CdiFiles
from shared.errors import StoreFailure


def test_a_written_file_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    files = CdiFiles(tmp_path / "cdi")
    assert files.uids() == set()
    files.write("u1", {"a": 1})
    files.write("u1", {"a": 2})
    assert files.path("u1").read_text() == '{"a": 2}'
    assert files.uids() == {"u1"}
    assert [path.name for path in files.folder.iterdir()] == ["model.larder.dev-u1.json"]
    files.remove("u1")
    files.remove("u1")
    assert files.uids() == set()


def test_unfinished_files_are_dropped_and_foreign_files_stay(tmp_path: Path) -> None:
    (tmp_path / "model.larder.dev-u1.17.tmp").write_text("{")
    (tmp_path / "gpu.json").write_text("{}")
    files = CdiFiles(tmp_path)
    assert files.uids() == set()
    assert files.drop_unfinished() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["gpu.json"]


@pytest.mark.parametrize("uid", ["../x", "", "a/b", "x" * 64])
def test_a_uid_that_could_be_a_path_is_refused(tmp_path: Path, uid: str) -> None:
    with pytest.raises(StoreFailure):
        CdiFiles(tmp_path).write(uid, {})


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailure, match="cannot write"):
        CdiFiles(tmp_path / "file").write("u1", {})


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    files = CdiFiles(tmp_path)
    files.path("0a").mkdir()
    with pytest.raises(StoreFailure):
        files.write("0a", {})
    assert list(tmp_path.iterdir()) == [files.path("0a")]
