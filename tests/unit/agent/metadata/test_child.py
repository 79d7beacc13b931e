"""Which of an archive's files are the model: those of its only directory, apart from junk beside it."""

from pathlib import Path

import pytest

from agent.metadata.child import UnpackedFiles, read_unpacked
from agent.metadata.read_request import SnapshotReadRequest

CONFIG = b'{"model_type": "llama"}'


def unpacked(folder: Path, *paths: str) -> Path:
    for path in (*paths, ".completed"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(CONFIG)
    return folder


@pytest.mark.parametrize(
    "junk",
    ["__MACOSX/._m", "__MACOSX/m/._config.json", ".DS_Store", "._m", ".git/config", ".cache/huggingface/config.json"],
)
def test_junk_beside_the_single_directory_is_ignored(tmp_path: Path, junk: str) -> None:
    files = UnpackedFiles(str(unpacked(tmp_path, "m/config.json", "m/sub/a.txt", junk)))
    assert files.sizes == {"config.json": len(CONFIG), "sub/a.txt": len(CONFIG)}
    assert files.read("config.json", 0, 100) == CONFIG
    found = read_unpacked(SnapshotReadRequest(folder=str(tmp_path))).metadata
    assert found
    assert (found.model_type, found.size_bytes) == ("llama", 2 * len(CONFIG))


@pytest.mark.parametrize(
    "paths",
    [
        ("config.json", "m/a.txt"),
        ("config.json", ".gitattributes"),
        ("m/config.json", "README.md"),
        ("m/config.json", "__MACOSX.txt"),
    ],
)
def test_anything_else_beside_a_directory_makes_the_whole_archive_the_model(
    tmp_path: Path, paths: tuple[str, ...]
) -> None:
    assert set(UnpackedFiles(str(unpacked(tmp_path, *paths))).sizes) == set(paths)


def test_a_directory_that_looks_like_junk_is_the_model_if_it_is_alone(tmp_path: Path) -> None:
    assert set(UnpackedFiles(str(unpacked(tmp_path, ".m/config.json"))).sizes) == {"config.json"}


def test_a_broken_link_among_junk_is_not_part_of_the_model(tmp_path: Path) -> None:
    unpacked(tmp_path, "m/config.json", "__MACOSX/._m")
    (tmp_path / "__MACOSX/gone").symlink_to("nowhere")
    (tmp_path / "m/gone").symlink_to("nowhere")
    assert set(UnpackedFiles(str(tmp_path)).broken) == {"gone"}
