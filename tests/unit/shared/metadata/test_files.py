"""The port to a model's files: a directory, a source, and the in-memory twin."""

import os
from pathlib import Path

import pytest

from shared.errors import LarderError, SourceChanged, SourceNotFound, Unreachable, UnsafePath
from shared.metadata.errors import MetadataMalformed
from shared.metadata.files import DirectoryFiles, MemoryFiles, ModelFiles, SourceFiles, remark_on
from shared.metadata.reader import read_metadata
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


def test_a_range_is_read_up_to_the_end_of_the_file(files: ModelFiles) -> None:
    assert files.read("config.json", 2, 3) == b"234"
    assert files.read("config.json", 8, 100) == b"89"
    assert files.read("config.json", 20, 4) == b""


def test_a_missing_file_is_reported_as_not_found(files: ModelFiles) -> None:
    with pytest.raises(SourceNotFound):
        files.read("absent", 0, 1)


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "root/model").mkdir(parents=True)
    (tmp_path / "root/model/config.json").symlink_to("../../secret")
    with pytest.raises(UnsafePath):
        DirectoryFiles(str(tmp_path / "root"), "model").read("config.json", 0, 2)
    with pytest.raises(UnsafePath):
        DirectoryFiles(str(tmp_path / "root"), "../secret")


def broken_model(tmp_path: Path, *names: str) -> Path:
    """Write a model with dangling links of these names, and one that leads out of it."""
    model = tmp_path / "model"
    (model / "text").mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "llama"}')
    (model / "notes").symlink_to("/etc/hostname")
    for name in names:
        (model / name).unlink(missing_ok=True)
        (model / name).symlink_to("nowhere")
    return model


def test_broken_files_that_are_not_needed_are_ignored_and_reported(tmp_path: Path) -> None:
    os.mkfifo(broken_model(tmp_path, "text/a.txt", "README.md") / "pipe")
    files = DirectoryFiles(str(tmp_path), "model", shown="here")
    assert read_metadata(files).model_type == "llama"
    assert dict(files.sizes) == {"config.json": 23}
    assert set(files.broken) == {"README.md", "notes", "pipe", "text/a.txt"}
    assert str(files.broken["notes"]).startswith("here/notes is or passes through a link that leads out")
    assert str(files.broken["text/a.txt"]).startswith("here/text/a.txt is a dangling link")
    assert remark_on(files).startswith("here/README.md is a dangling link")
    assert remark_on(files).endswith("; and 3 more broken files")


@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer_config.json", "model.safetensors", "model-2.gguf", "pytorch_model.bin"],
)
def test_a_broken_file_that_is_needed_is_named(name: str, tmp_path: Path) -> None:
    broken_model(tmp_path, name)
    with pytest.raises(SourceNotFound, match=rf"^here/{name} is a dangling link"):
        read_metadata(DirectoryFiles(str(tmp_path), "model", shown="here"))


def test_a_complete_model_gets_no_remark(files: ModelFiles) -> None:
    assert (dict(files.broken), remark_on(files)) == ({}, "")


def test_a_link_beneath_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/1").write_bytes(b"{}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").symlink_to("../blobs/1")
    assert DirectoryFiles(str(tmp_path), "model").read("config.json", 0, 9) == b"{}"


def test_one_file_is_read_regardless_of_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/one.gguf").write_bytes(b"GGUF")
    (tmp_path / "model/link").symlink_to("/nowhere")
    files = DirectoryFiles(str(tmp_path), "model", only="one.gguf")
    assert dict(files.sizes) == {"one.gguf": 4}
    assert files.read("one.gguf", 0, 9) == b"GGUF"
    assert set(DirectoryFiles(str(tmp_path), "model").broken) == {"link"}


def test_a_missing_directory_is_reported_as_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        DirectoryFiles(str(tmp_path), "absent")


@pytest.mark.parametrize("error", [SourceChanged("it moved"), SourceNotFound("it is gone")])
def test_a_lasting_failure_is_not_retried(error: LarderError) -> None:
    source = MemorySource(BODIES)
    files = SourceFiles(source)
    source.faults.on_open = [error]
    with pytest.raises(type(error)):
        files.read("config.json", 0, 4)


def test_an_answer_that_is_cut_short_is_requested_once_more() -> None:
    source = MemorySource(BODIES)
    files = SourceFiles(source)
    source.faults.on_open = [Unreachable("once")]
    assert files.read("config.json", 0, 4) == b"0123"
    source.faults.on_open = [Unreachable("once"), Unreachable("twice")]
    with pytest.raises(Unreachable, match="twice"):
        files.read("config.json", 0, 4)


def test_a_link_to_a_directory_of_the_model_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "a.txt").write_text("a")
    (tmp_path / "latest").symlink_to("checkpoint-1")
    files = DirectoryFiles(str(tmp_path))
    assert set(files.sizes) == {"checkpoint-1/a.txt"}
    assert "is a link to a directory" in str(files.broken["latest"])


@pytest.mark.parametrize("held", [(), ("inner.json",)])
def test_a_directory_in_the_place_of_the_configuration_is_reported(tmp_path: Path, held: tuple[str, ...]) -> None:
    (tmp_path / "model" / "config.json").mkdir(parents=True)
    for name in held:
        (tmp_path / "model" / "config.json" / name).write_text("{}")
    with pytest.raises(MetadataMalformed, match=r"config.json: is a directory"):
        read_metadata(DirectoryFiles(str(tmp_path), "model"))
    with pytest.raises(MetadataMalformed, match=r"config.json: is a directory"):
        read_metadata(MemoryFiles({"config.json/inner.json": b"{}"}))
