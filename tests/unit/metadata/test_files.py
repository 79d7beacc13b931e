"""The port to a model's files: a directory, a source, the twin."""

from pathlib import Path

import pytest

from shared.errors import LarderError, SourceChanged, SourceNotFound, Unreachable, UnsafePath
from shared.metadata.files import DirectoryFiles, MemoryFiles, ModelFiles, SourceFiles
from shared.sources.memory import MemorySource

BODIES = {"config.json": b"0123456789", "sub/other.bin": b"abc"}


@pytest.fixture(params=["directory", "source", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> ModelFiles:
    for path, body in BODIES.items():
        (tmp_path / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / path).write_bytes(body)
    match request.param:
        case "directory":
            return DirectoryFiles(str(tmp_path), "model")
        case "source":
            return SourceFiles(MemorySource(BODIES))
        case _:
            return MemoryFiles(BODIES)


def test_every_file_has_its_size(files: ModelFiles) -> None:
    assert dict(files.sizes) == {"config.json": 10, "sub/other.bin": 3}


def test_a_part_is_those_bytes_or_what_is_there(files: ModelFiles) -> None:
    assert files.read("config.json", 2, 3) == b"234"
    assert files.read("config.json", 8, 100) == b"89"
    assert files.read("config.json", 20, 4) == b""


def test_what_is_not_there_says_so(files: ModelFiles) -> None:
    with pytest.raises(SourceNotFound):
        files.read("absent", 0, 1)


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "root/model").mkdir(parents=True)
    (tmp_path / "root/model/config.json").symlink_to("../../secret")
    with pytest.raises(UnsafePath):
        DirectoryFiles(str(tmp_path / "root"), "model")
    with pytest.raises(UnsafePath):
        DirectoryFiles(str(tmp_path / "root"), "../secret")


def test_a_link_beneath_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/1").write_bytes(b"{}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").symlink_to("../blobs/1")
    assert DirectoryFiles(str(tmp_path), "model").read("config.json", 0, 9) == b"{}"


def test_one_file_is_read_whatever_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/one.gguf").write_bytes(b"GGUF")
    (tmp_path / "model/link").symlink_to("/nowhere")
    files = DirectoryFiles(str(tmp_path), "model", only="one.gguf")
    assert dict(files.sizes) == {"one.gguf": 4}
    assert files.read("one.gguf", 0, 9) == b"GGUF"
    with pytest.raises(UnsafePath):
        DirectoryFiles(str(tmp_path), "model")


def test_a_directory_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        DirectoryFiles(str(tmp_path), "absent")


@pytest.mark.parametrize("error", [SourceChanged("it moved"), SourceNotFound("it is gone")])
def test_what_does_not_pass_is_not_tried_again(error: LarderError) -> None:
    source = MemorySource(BODIES)
    files = SourceFiles(source)
    source.faults.on_open = [error]
    with pytest.raises(type(error)):
        files.read("config.json", 0, 4)


def test_an_answer_that_breaks_off_is_asked_for_once_more() -> None:
    source = MemorySource(BODIES)
    files = SourceFiles(source)
    source.faults.on_open = [Unreachable("once")]
    assert files.read("config.json", 0, 4) == b"0123"
    source.faults.on_open = [Unreachable("once"), Unreachable("twice")]
    with pytest.raises(Unreachable, match="twice"):
        files.read("config.json", 0, 4)
