"""File names that file systems or people confuse, names of maximum length, and conflicting names."""

from pathlib import Path

import pytest

from shared.sources.memory import MemorySource
from tests.builders.file_names import COMPOSED, DECOMPOSED, FILES, LONGEST
from tests.integration.cli.fetch.command import Command


def test_files_with_unusual_names_keep_their_own_bytes_and_only_missing_ones_are_fetched(tmp_path: Path) -> None:
    command = Command(tmp_path / "dir", MemorySource(FILES))
    assert command.run() == 0
    assert command.tree() == FILES
    served = command.source.served_bytes
    for path in (LONGEST, DECOMPOSED, "Config.json"):
        (command.to / path).unlink()
    assert command.run() == 0
    assert command.tree() == FILES
    assert (command.to / COMPOSED).read_bytes() != (command.to / DECOMPOSED).read_bytes()
    missing = (FILES[LONGEST], FILES[DECOMPOSED], FILES["Config.json"])
    assert command.source.served_bytes - served == sum(map(len, missing))


@pytest.mark.parametrize(
    ("paths", "phrase"),
    [
        (["n" * 256], "is too long"),
        (["\u00e9" * 128], "is too long"),
        (["a", "a/b"], "'a' is a file, but 'a/b' uses it as a directory"),
        (["a/b/c", "a/b"], "'a/b' is a file, but 'a/b/c' uses it as a directory"),
    ],
)
def test_a_conflicting_path_is_reported_and_nothing_is_written(tmp_path: Path, paths: list[str], phrase: str) -> None:
    command = Command(tmp_path / "dir", MemorySource(dict.fromkeys(paths, b"x")))
    assert command.run() == 1
    assert command.error.startswith("UnsafePath: ")
    assert phrase in command.error
    assert command.tree() == {}
    assert command.source.served_bytes == 0


def test_a_file_with_the_name_of_a_directory_of_the_model_is_reported_and_kept(tmp_path: Path) -> None:
    command = Command(tmp_path / "dir", MemorySource({"sub/file": b"x"}))
    command.to.mkdir()
    (command.to / "sub").write_bytes(b"of somebody")
    assert command.run() == 1
    assert command.error.startswith("StoreFailure: ")
    assert str(command.to / "sub") in command.error
    assert command.tree() == {"sub": b"of somebody"}
    assert command.source.served_bytes == 0
