"""`larder inspect` of a hub and of a directory, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.hub import Hub, Truncate
from tests.integration.cli.inspect.shards import CONFIG, SHARDS, write_model


def inspect(*arguments: str, endpoint: str = "", at: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HF_ENDPOINT": endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1/32"}
    command = [sys.executable, "-m", "shared.cli", "inspect", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=at)  # noqa: S603 - our own


def found_by(*arguments: str, endpoint: str = "") -> dict[str, object]:
    done = inspect(*arguments, "-o", "json", endpoint=endpoint)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def large(tmp_path: Path) -> tuple[Path, int]:
    folder = tmp_path / "large"
    return folder, write_model(folder)


def test_163_shards_are_described_by_their_headers_with_two_requests_per_shard(
    hub: Hub, large: tuple[Path, int]
) -> None:
    folder, parameters = large
    hub.push("inspect/large", folder)
    hub.journal.clear()
    found = found_by("hf://inspect/large", endpoint=hub.endpoint)
    assert (found["parameters"], found["parametersFrom"]) == (parameters, "headers")
    assert (found["quantization"], found["contextLength"]) == ("fp8", 163840)
    assert len(hub.journal.requests(host="cdn")) <= 2 * SHARDS
    assert len(hub.journal.requests("*.safetensors", host="hub")) == SHARDS


def test_only_the_headers_of_large_files_are_read(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "sparse"
    write_model(folder, data_bytes=1_000)
    hub.push("inspect/sparse", folder)
    hub.journal.clear()
    assert found_by("hf://inspect/sparse", endpoint=hub.endpoint)["parametersFrom"] == "headers"
    ranges = [seen.range for seen in hub.journal.requests(host="cdn")]
    assert None not in ranges
    bounds = [one_range.removeprefix("bytes=").split("-") for one_range in ranges if one_range]
    assert sum(int(end) - int(start) + 1 for start, end in bounds) < 20_000_000


def test_a_directory_is_reported_like_a_hub_repository(hub: Hub, large: tuple[Path, int]) -> None:
    folder, _ = large
    hub.push("inspect/both", folder)
    assert found_by(str(folder)) == found_by("hf://inspect/both", endpoint=hub.endpoint)


def test_an_answer_that_is_cut_short_is_requested_again(hub: Hub, large: tuple[Path, int]) -> None:
    folder, parameters = large
    hub.push("inspect/broken", folder)
    hub.faults.add(Truncate(1000), times=1)
    assert found_by("hf://inspect/broken", endpoint=hub.endpoint)["parameters"] == parameters


def test_the_table_shows_parameters_experts_and_kv_cache_size(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "pytorch_model.bin").touch()
    # a byte for each weight, two for those of the embedding and the head
    os.truncate(tmp_path / "pytorch_model.bin", 671_026_419_200 + 2 * 129_280 * 7168)
    done = inspect(str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert lines["parameters"].strip() == "~671.03B, estimated from the size of the weights and their type"
    assert lines["experts"].strip() == "256, 8 active"
    assert lines["KV cache"].strip() == "70,272 bytes per token"


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        ('{"hidden_size": "wide"}', ("MetadataMalformed", "config.json", "hidden_size")),
        ('{"a": 1, "a": 2}', ("MetadataMalformed", "config.json", "field a")),
        (f'{{"name": "{"x" * 10_000_000}"}}', ("MetadataOversized", "config.json", "name")),
    ],
)
def test_an_invalid_file_prints_one_line_with_its_name_and_the_field(
    tmp_path: Path, body: str, phrase: tuple[str, ...]
) -> None:
    (tmp_path / "config.json").write_text(body)
    done = inspect(str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert all(word in done.stderr for word in phrase)


def test_a_single_file_is_reported_without_its_neighbours(large: tuple[Path, int]) -> None:
    folder, parameters = large
    first = folder / f"model-00001-of-{SHARDS:05d}.safetensors"
    (folder / "alone.safetensors").write_bytes(first.read_bytes())
    found = found_by(str(folder / "alone.safetensors"))
    assert found["parameters"] == parameters // SHARDS
    assert "modelType" not in found


def test_a_directory_without_a_model_is_reported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    done = inspect(str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("MetadataMissing: config.json")


@pytest.mark.parametrize("typed", ["m", "./m", "{tmp_path}/m"])
def test_a_path_is_printed_as_it_was_typed(typed: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "m" / "notes").symlink_to("nowhere")
    path = typed.format(tmp_path=tmp_path)
    shown = path.removeprefix("./")
    done = inspect(path, "-o", "json", at=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["modelType"]) == (0, CONFIG["model_type"])
    assert done.stderr == f"Remark: {shown}/notes is a dangling link; replace it with the file itself\n"
    (tmp_path / "m" / "tokenizer_config.json").symlink_to("/nowhere")
    done = inspect(path, at=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"UnsafePath: {shown}/tokenizer_config.json is or passes through a link that is absolute"
    )
    done = inspect(f"{path}/none", at=tmp_path)
    assert done.stderr.startswith(f"SourceNotFound: there is no {shown}/none on this machine")
