"""Numbers of parameters without headers: from an index, or else from the size of the weights."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shared.metadata.files import DirectoryFiles, MemoryFiles
from shared.metadata.model_metadata import Metadata
from shared.metadata.reader import read_metadata
from tests.builders.model_files import config_of, read, read_files, safetensors

SHARDS = {"pytorch_model-00001-of-00002.bin": bytes(24), "pytorch_model-00002-of-00002.bin": bytes(16)}
LLAMA = {"model_type": "llama", "torch_dtype": "float16"}
LLAMA_2_7B = {"model_type": "llama", "hidden_size": 4096, "vocab_size": 32000, "tie_word_embeddings": False}


def quantized(**fields: Any) -> dict[str, Any]:
    return {**LLAMA_2_7B, "torch_dtype": "float16", "quantization_config": fields}


@pytest.mark.parametrize(
    ("config", "size_bytes", "published"),
    [
        # bytes of pytorch_model.bin, parameters of the model card
        ({"model_type": "bert"}, 440_473_133, 110_106_428),
        ({**LLAMA_2_7B, "torch_dtype": "float16"}, 13_476_950_000, 6_738_415_616),
        (quantized(quant_method="awq", bits=4, group_size=128), 3_890_000_000, 6_738_415_616),
        (quantized(quant_method="gptq", bits=4, group_size=128), 3_900_000_000, 6_738_415_616),
        # 6,476,267,520 weights in the layers, 16 bits for the 262,144,000 of both tables, and scales
        (quantized(quant_method="bitsandbytes", load_in_4bit=True), 524_288_000 + 3_340_000_000, 6_738_415_616),
        (quantized(quant_method="fp8"), 524_288_000 + 6_477_848_000, 6_738_415_616),
        (quantized(quant_method="modelopt", quant_algo="NVFP4"), 524_288_000 + 3_642_900_480, 6_738_415_616),
        (quantized(quant_method="mxfp4"), 524_288_000 + 3_440_517_120, 6_738_415_616),
    ],
)
def test_the_estimate_is_near_the_published_number(
    tmp_path: Path, config: dict[str, Any], size_bytes: int, published: int
) -> None:
    found = sparse(tmp_path, config, size_bytes)
    assert found.parameters_from == "estimate"
    assert found.parameters == pytest.approx(published, rel=0.01)
    assert found.parameters_active == found.parameters


def sparse(folder: Path, config: dict[str, Any], size_bytes: int) -> Metadata:
    """Return the metadata of a model whose weights are a sparse file of this size."""
    (folder / "pytorch_model.bin").touch()
    os.truncate(folder / "pytorch_model.bin", size_bytes)
    (folder / "config.json").write_text(json.dumps(config))
    return read_metadata(DirectoryFiles(str(folder)))


@pytest.mark.parametrize(
    ("config", "path", "parameters"),
    [
        ({"torch_dtype": "bfloat16"}, "pytorch_model.bin", 20),
        ({"dtype": "torch.float32"}, "pytorch_model.bin", 10),
        ({"text_config": {"torch_dtype": "float16"}}, "pytorch_model.bin", 20),
        ({}, "pytorch_model.bin", 10),
        ({"torch_dtype": "float32"}, "pytorch_model.fp16.bin", 20),
        ({"torch_dtype": "float7"}, "pytorch_model.bin", None),
        ({"quantization_config": {"quant_method": "unheard-of"}}, "pytorch_model.bin", None),
        # embedding tables larger than the whole file are ignored
        (quantized(quant_method="fp8"), "pytorch_model.bin", 40),
        # an ONNX graph may keep its weights in files of any name
        ({"torch_dtype": "float32"}, "model.onnx", None),
    ],
)
def test_the_parameter_count_follows_from_the_size_of_the_weights_and_the_dtype(
    config: dict[str, Any], path: str, parameters: int | None
) -> None:
    found = read_files({"config.json": config, path: bytes(40)})
    assert (found.parameters, found.parameters_from) == (parameters, "estimate" if parameters else "")


def test_no_parameters_are_estimated_without_weights() -> None:
    assert read(config_json=config_of("llama-3.1")).parameters is None


def test_all_shards_of_a_set_count_once_and_further_copies_do_not() -> None:
    again = {"consolidated.00.pth": bytes(40), "optimizer.bin": bytes(99)}
    found = read_files({"config.json": LLAMA, **SHARDS, **again})
    assert (found.parameters, found.weight_bytes) == (20, 40)


def test_the_parts_that_meta_publishes_count_together_at_two_bytes_a_weight() -> None:
    parts = {f"consolidated.{i:02}.pth": bytes(30) for i in range(8)}
    found = read_files({"params.json": {"dim": 8192, "n_layers": 80, "n_heads": 64}, **parts})
    assert (found.parameters, found.weight_bytes) == (120, 240)


def test_active_parameters_of_a_mixture_of_experts_are_not_estimated() -> None:
    found = read_files({"config.json": {**LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2}, **SHARDS})
    assert (found.parameters, found.parameters_active) == (20, None)


def index(**metadata: object) -> dict[str, object]:
    return {"pytorch_model.bin.index.json": {"metadata": metadata, "weight_map": {"a": "b"}}}


def test_a_parameter_count_in_the_index_replaces_the_estimate() -> None:
    found = read_files({"config.json": LLAMA, **SHARDS, **index(total_parameters=17, total_size=34)})
    assert (found.parameters, found.parameters_from) == (17, "index")


def test_the_index_count_is_ignored_for_packed_weights() -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "int8", "bits": 8}}
    found = read_files({"config.json": config, **SHARDS, **index(total_parameters=17)})
    assert (found.parameters, found.parameters_from) == (40, "estimate")


@pytest.mark.parametrize("total", [2 * 10**9, 2e9])
def test_the_index_gives_the_size_of_pytorch_weights_if_a_shard_is_missing(total: float) -> None:
    shard = {"pytorch_model-00001-of-00002.bin": bytes(24)}
    found = read_files({"config.json": LLAMA, **shard, **index(total_size=total)})
    assert (found.parameters, found.parameters_from) == (10**9, "estimate")
    assert read_files({"config.json": LLAMA, **shard}).parameters is None


def test_the_index_gives_the_size_of_safetensors_if_a_shard_is_missing() -> None:
    shard = {"model-00001-of-00002.safetensors": safetensors({"a": ("BF16", [3])})}
    beside = {"model.safetensors.index.json": {"metadata": {"total_size": 20}, "weight_map": {}}}
    found = read_files({"config.json": {}, **shard, **beside})
    assert (found.parameters, found.parameters_from, found.dtype) == (10, "estimate", "bfloat16")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b'{"metadata": {"total_size": -8}}',
        b'{"metadata": {"total_parameters": 0}}',
        b'{"metadata": {"total_parameters": "17"}}',
        b'{"metadata": {"total_parameters": 1e3}}',
        b'{"metadata": {"total_parameters": 999999999999999999999999}}',
        b'{"weight_map": {' + b" " * 5000 + b'}, "metadata": {"total_parameters": 17}}',
    ],
)
def test_an_index_without_usable_content_is_ignored(body: bytes) -> None:
    found = read_files({"config.json": LLAMA, **SHARDS, "pytorch_model.bin.index.json": body})
    assert (found.parameters, found.parameters_from) == (20, "estimate")


def test_only_the_start_of_a_large_index_is_read() -> None:
    body = b'{"metadata": {"total_parameters": 17}, "weight_map": {' + b" " * 2**24 + b"}}"
    files = MemoryFiles({"config.json": b"{}", "pytorch_model.bin.index.json": body, **SHARDS})
    assert read_metadata(files).parameters == 17
    assert files.read_bytes < 2**13


def test_an_implausible_size_gives_no_estimate() -> None:
    huge = index(total_size=999_999_999_999_999)
    shard = {"pytorch_model-00001-of-00002.bin": bytes(24)}
    config = {"quantization_config": {"bits": 1, "quant_method": "gptq"}}
    assert read_files({"config.json": config, **shard, **huge}).parameters is None
