"""Which files are read below a mounted claim, and which never are."""

import io
import json
import struct
from pathlib import Path

import pytest

from agent.cli.extract_metadata import read_claim, run_extract
from shared.metadata.reading.termination_message import Reading, decode_reading, encode_reading

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "vocab_size": 16,
          "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
          "max_position_embeddings": 128}  # fmt: skip


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    root = tmp_path / "claim"
    model = root / "models" / "llama"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.json").write_text(json.dumps(CONFIG))
    return root


def reading(claim: Path, path: str) -> Reading:
    found, _ = read_claim(str(claim), path)
    return found


def test_the_metadata_of_a_directory_on_the_claim_is_read(claim: Path) -> None:
    found = reading(claim, "models/llama").metadata
    assert found
    assert (found.model_type, found.context_length) == ("llama", 128)


def test_a_single_file_can_be_the_model(claim: Path) -> None:
    header = json.dumps({"w": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    body = struct.pack("<Q", len(header)) + header + bytes(12)
    (claim / "models" / "one.safetensors").write_bytes(body)
    found = reading(claim, "models/one.safetensors").metadata
    assert found
    assert found.parameters == 6


@pytest.mark.parametrize("path", ["models/none", "none/llama", "models/llama/config.json/x"])
def test_a_missing_path_is_reported_as_not_found(path: str, claim: Path) -> None:
    found = reading(claim, path)
    assert (found.found, found.reason) == (False, "PathNotFound")
    assert path in found.message


@pytest.mark.parametrize("target", ["../../outside", "/etc", "loop"])
def test_a_link_that_leads_out_of_the_claim_is_not_followed(target: str, claim: Path) -> None:
    (claim / "models" / "loop").symlink_to(target)
    found = reading(claim, "models/loop")
    assert (found.found, found.reason) == (False, "UnsafePath")
    assert found.message.startswith(
        "'models/loop' on the claim is or passes through a link that leads out of the claim"
    )


def test_a_link_within_the_claim_is_followed(claim: Path) -> None:
    (claim / "latest").symlink_to("models/llama")
    assert reading(claim, "latest").metadata


@pytest.mark.parametrize("target", ["../../../outside/config.json", "../config.json", "/etc/hostname"])
def test_a_needed_file_that_links_out_of_the_model_is_refused(target: str, claim: Path) -> None:
    (claim / "models" / "config.json").write_text(json.dumps(CONFIG))
    (claim / "models" / "llama" / "config.json").unlink()
    (claim / "models" / "llama" / "config.json").symlink_to(target)
    found = reading(claim, "models/llama")
    assert (found.found, found.reason) == (True, "UnsafePath")
    assert found.message.startswith("models/llama/config.json is or passes through a link")
    assert "/proc" not in found.message


def test_an_unneeded_file_that_links_out_of_the_model_is_noted(claim: Path) -> None:
    (claim / "models" / "llama" / "notes").symlink_to("../../../outside/config.json")
    found = reading(claim, "models/llama")
    assert found.metadata
    assert found.message.startswith("models/llama/notes is or passes through a link that leads out of models/llama")
    for number in range(99):
        (claim / "models" / "llama" / f"{number}-{'n' * 200}").symlink_to("nowhere")
    assert decode_reading(encode_reading(reading(claim, "models/llama")).decode()).metadata


def test_messages_do_not_show_where_the_claim_is_mounted(claim: Path) -> None:
    (claim / "models" / "claim.gguf").write_bytes(b"GGUF")
    assert str(claim) not in reading(claim, "models/claim.gguf").message
    (claim / "models" / "gone").symlink_to("nowhere")
    assert reading(claim, "models/gone").reason == "PathNotFound"


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("weights.txt", b"x", "MetadataMissing"),
        ("config.json", b"{", "MetadataMalformed"),
        ("config.json", b" " * (64 * 2**20), "MetadataOversized"),
    ],
)
def test_a_missing_malformed_or_oversized_configuration_is_named(
    name: str, body: bytes, reason: str, claim: Path
) -> None:
    (claim / "models" / "llama" / "config.json").unlink()
    (claim / "models" / "llama" / name).write_bytes(body)
    found = reading(claim, "models/llama")
    assert (found.found, found.reason) == (True, reason)
    assert "config.json" in found.message


def test_the_existence_of_a_model_is_reported_before_it_is_read(claim: Path) -> None:
    """Memory and time may end the Job while it reads."""
    config = claim / "models" / "llama" / "config.json"
    run_extract(str(claim), "models/none", config, io.StringIO())
    assert decode_reading(config.read_text()).found is False
    config.write_text(json.dumps(CONFIG))
    out = io.StringIO()
    run_extract(str(claim), "models/llama", config, out)
    read = decode_reading(out.getvalue().strip())
    assert read.found
    assert read.metadata is None or read.metadata.model_type != "llama", "the early result was written before the read"
    (claim / "models" / "llama").rename(claim / "models" / "moved")
    found, _ = read_claim(str(claim), "models/moved", (claim / "models" / "moved" / "config.json").unlink)
    assert found.reason == "MetadataMissing"


def test_the_result_is_written_to_the_termination_log_and_to_stdout(claim: Path, tmp_path: Path) -> None:
    to, out = tmp_path / "log", io.StringIO()
    assert run_extract(str(claim), "models/llama", to, out) == 0
    assert decode_reading(to.read_text()) == reading(claim, "models/llama")
    assert out.getvalue().strip() == to.read_text()
    assert run_extract(str(claim), "models/none", to, out) == 0
    assert decode_reading(to.read_text()).reason == "PathNotFound"
