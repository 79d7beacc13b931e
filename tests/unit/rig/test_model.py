import json
import struct
from pathlib import Path

import pytest

from rig.model import shape_for, write_model

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), size_bytes=MIB, shards=3)


def _header(path: Path) -> tuple[dict[str, dict[str, list[int]]], int]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    return header, len(data) - 8 - length


def test_the_index_agrees_with_the_shards(model: Path) -> None:
    index = json.loads((model / "model.safetensors.index.json").read_text())
    found: dict[str, str] = {}
    total = 0
    for shard in sorted(model.glob("*.safetensors")):
        header, size = _header(shard)
        found |= dict.fromkeys(header, shard.name)
        ends = [0, *(entry["data_offsets"][1] for entry in header.values())]
        assert [entry["data_offsets"][0] for entry in header.values()] == ends[:-1]
        assert ends[-1] == size
        total += size
    assert found == index["weight_map"]
    assert total == index["metadata"]["total_size"]
    assert len(set(found.values())) == 3


def test_the_configuration_agrees_with_the_tensors(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    tensors = {name: entry for shard in model.glob("*.safetensors") for name, entry in _header(shard)[0].items()}
    embedding = tensors["model.embed_tokens.weight"]["shape"]
    assert embedding == [config["vocab_size"], config["hidden_size"]]
    last = config["num_hidden_layers"] - 1
    assert f"model.layers.{last}.mlp.up_proj.weight" in tensors
    assert f"model.layers.{last + 1}.mlp.up_proj.weight" not in tensors
    heads = config["num_key_value_heads"] * config["head_dim"]
    assert tensors["model.layers.0.self_attn.k_proj.weight"]["shape"] == [heads, config["hidden_size"]]


def test_the_vocabulary_has_every_byte_and_all_merges(model: Path) -> None:
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    assert len({word for word in vocabulary if len(word) == 1}) == 256
    for left, right in tokenizer["model"]["merges"]:
        assert {left, right, left + right} <= vocabulary.keys()
    config = json.loads((model / "config.json").read_text())
    assert config["bos_token_id"] in {one["id"] for one in tokenizer["added_tokens"]}
    assert len(vocabulary) + len(tokenizer["added_tokens"]) <= config["vocab_size"]


def test_the_same_seed_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    again = write_model(tmp_path / "again", size_bytes=MIB, shards=3)
    other = write_model(tmp_path / "other", size_bytes=MIB, shards=3, seed=1)
    for path in model.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
    shard = "model-00001-of-00003.safetensors"
    assert (other / shard).read_bytes() != (model / shard).read_bytes()


@pytest.mark.parametrize("size", [MIB, 24 * MIB, 300 * MIB, 5000 * MIB])
def test_the_requested_size_is_met_within_ten_percent(size: int) -> None:
    assert abs(shape_for(size).size_bytes() - size) < size / 10
