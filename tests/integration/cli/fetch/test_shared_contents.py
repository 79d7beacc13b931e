"""Two models that share files, one of them deleted, and a model with equal files at two paths."""

import shutil
from pathlib import Path

from shared.sources.memory import MemorySource
from tests.integration.cli.fetch.command import Command

ONE = {"weights": b"0123456789" * 100_000, "one": b"1"}
TWO = {**ONE, "two": b"2"}


def test_deleting_the_directory_of_one_model_leaves_the_other_complete(tmp_path: Path) -> None:
    one, two = (Command(tmp_path / name, MemorySource(files)) for name, files in (("one", ONE), ("two", TWO)))
    assert (one.run(), two.run()) == (0, 0)
    shutil.rmtree(one.to)
    served = two.source.served_bytes
    assert two.run() == 0
    assert two.tree() == TWO
    assert two.source.served_bytes == served


def test_two_models_in_one_directory_share_equal_files_and_stay_independent(
    tmp_path: Path,
) -> None:
    one, two = (Command(tmp_path / "both", MemorySource(files)) for files in (ONE, TWO))
    assert (one.run(), two.run()) == (0, 0)
    assert two.source.served_bytes == len(TWO["two"])
    (two.to / "two").unlink()
    served = one.source.served_bytes
    assert one.run() == 0
    assert one.tree() == ONE
    assert one.source.served_bytes == served


def test_only_the_deleted_copy_of_equal_files_is_fetched_again(tmp_path: Path) -> None:
    files = {"a": b"same" * 1000, "b": b"same" * 1000}
    command = Command(tmp_path / "dir", MemorySource(files))
    assert command.run() == 0
    assert command.source.served_bytes == len(files["a"])
    (command.to / "a").unlink()
    assert command.run() == 0
    assert command.tree() == files
    assert command.source.served_bytes == 2 * len(files["a"])
