"""`larder fetch` of some files, and without pickles."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.hub import Hub
from tests.builders.archives import MAKERS
from tests.builders.model_files import random_safetensors

FILES = {
    "config.json": b"{}",
    "model.safetensors": random_safetensors(200_000),
    "pytorch_model.bin": pickle.dumps({"weight": os.urandom(200_000)}, 4),
    "tokenizer.model": b"\n\x0e\n\x05<unk>",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("model")
    for path, body in FILES.items():
        (folder / path).write_bytes(body)
    with Hub(tmp_path_factory.mktemp("hub")) as hub:
        hub.push("org/m", folder)
        yield hub


def fetch(hub: Hub, to: Path, *options: str, repo: str = "org/m") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shared.cli", "fetch", f"hf://{repo}", "--to", str(to), *options]
    environ = {**os.environ, "HF_ENDPOINT": hub.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1/32"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own program


def names(to: Path) -> set[str]:
    return {str(p.relative_to(to)) for p in to.rglob("*") if p.is_file()}


def test_duplicate_weights_are_left_out_and_counted(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path / "to", "--duplicate-weights", "skip", "--no-pickle")
    assert done.returncode == 0
    assert done.stderr == (
        "1 files of the source are not downloaded, which saves 195.3 KiB (195.3 KiB in duplicate weights): "
        "pytorch_model.bin\n"
    )
    assert names(tmp_path / "to") == FILES.keys() - {"pytorch_model.bin"}
    assert "1 files with 195.3 KiB left out" in done.stdout


def test_json_output_lists_the_files_that_are_left_out(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path / "to", "--duplicate-weights", "skip", "-o", "json")
    reported = json.loads(done.stdout)
    assert reported["directory"] == str(tmp_path / "to")
    assert reported["files"] == len(FILES) - 1
    assert (reported["size"], reported["fetched"]) == (
        sum(map(len, FILES.values())) - reported["leftOut"]["size"],
        reported["size"],
    )
    assert reported["leftOut"] == {
        "files": 1, "size": 200_030, "duplicateSize": 200_030, "names": ["pytorch_model.bin"],
    }  # fmt: skip
    whole = json.loads(fetch(hub, tmp_path / "to", "-o", "json", "--quiet").stdout)
    assert (whole["files"], whole["leftOut"]) == (len(FILES), {})


def test_allow_and_ignore_patterns_select_the_fetched_files(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path / "to", "--allow", "*.json", "--allow", "*.model", "--ignore", "tok*")
    assert done.returncode == 0
    assert names(tmp_path / "to") == {"config.json"}


def test_a_pickle_is_refused_in_one_line_and_nothing_is_placed(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path / "to", "--no-pickle")
    assert done.returncode == 1
    assert done.stderr.startswith("PickleRefused: 'pytorch_model.bin' of hf://org/m@")
    assert done.stderr.count("\n") == 1
    kept = [p for p in (tmp_path / "to").rglob("*") if p.is_file() and p.stat().st_size > 100_000]
    assert kept == []


def test_a_pickle_from_an_earlier_fetch_is_refused(hub: Hub, tmp_path: Path) -> None:
    assert fetch(hub, tmp_path / "to").returncode == 0
    assert fetch(hub, tmp_path / "to", "--no-pickle").stderr.startswith("PickleRefused: 'pytorch_model.bin'")


def test_patterns_that_match_no_file_are_reported(hub: Hub, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path / "to", "--allow", "*.gguf")
    assert done.returncode == 1
    assert done.stderr.startswith("SourceNotFound: none of the 4 files")


def test_a_pickle_deep_in_a_packed_archive_is_found_when_it_is_unpacked(hub: Hub, tmp_path: Path) -> None:
    body = MAKERS["m.tar.gz"](
        {"model.safetensors": random_safetensors(3 * 2**20), "weights": FILES["pytorch_model.bin"]}
    )
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/m.tar.gz").write_bytes(body)
    hub.push("org/packed", tmp_path / "packed")
    assert fetch(hub, tmp_path / "free", repo="org/packed").returncode == 0
    refused = fetch(hub, tmp_path / "to", "--no-pickle", repo="org/packed")
    assert refused.stderr.startswith("PickleRefused: 'weights' of hf://org/packed@")
    assert names(tmp_path / "free") == {"model.safetensors", "weights"}
    kept = [p for p in (tmp_path / "to").rglob("*") if p.is_file() and p.stat().st_size > 100_000]
    assert kept == []
