"""Counts parameters without headers: from an index, else by an estimate from the size of the weights."""

import re

from shared.metadata.config.dimensions import Text
from shared.metadata.fields import Fields
from shared.metadata.files import ModelFiles
from shared.metadata.formats.tensors import Packing
from shared.metadata.model_metadata import ParametersFrom
from shared.metadata.weights import Weights

MAX_PARAMETERS = 2**50  # more than any real model has
_MAX_BYTES = 8 * MAX_PARAMETERS
_BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int8": 8}
# Variants in file names, as diffusers writes them.
_BITS_BY_NAME = {".fp32": 32, ".fp16": 16, ".bf16": 16}
_UNNAMED_BITS = 32  # the default of PyTorch; transformers has named any other type since 2021
_UNNAMED_BITS_OF_PARAMS = 16  # neither Meta nor Mistral names a type
# Bits of a quantized weight including its scales, for quantizers with a fixed number.
_BITS_BY_METHOD = {"nvfp4": 4 + 8 / 16, "mxfp4": 4 + 8 / 32, "fp8": 8.0, "fbgemm_fp8": 8.0, "int8": 8.0}
_FOUR_BITS = ("gptq", "awq", "bitsandbytes", "int4")  # four bits unless they say otherwise
_BITS_OF_SCALES = (16 + 4) / 128  # a scale and a zero point per group
_INDEX_BYTES = 4096  # the totals are at the start, followed by megabytes of names
_TOTAL = re.compile(rb'"(total_parameters|total_size)":[ ]{0,4}([0-9]{1,15})(?:\.0)?[,}\s]')


def guess_parameters(
    files: ModelFiles, weights: Weights, text: Text, dtype: str, packing: Packing
) -> tuple[int, ParametersFrom] | None:
    """Return the number of parameters and its origin; None if the files do not state enough. Raises LarderError.

    If a shard is missing, only the index knows the size of the whole.
    """
    totals = _totals_of_index(files, weights)
    total = totals.get("total_parameters", 0)
    if 0 < total < MAX_PARAMETERS and not packing.method:  # for packed weights, the index counts packed words
        return total, "index"
    size_bytes = weights.size_bytes if weights.whole else totals.get("total_size", 0)
    packed = packing.method != ""
    bits = _bits_of_packing(packing) if packed else bits_of_type(dtype, weights.files, text.config)
    if weights.format not in ("pytorch", "safetensors") or not bits:  # an ONNX graph may keep its weights elsewhere
        return None
    found = estimate_parameters(size_bytes, bits, unquantized=_tables_of(text) if packed else 0)
    return (found, "estimate") if found else None


def _tables_of(text: Text) -> int:
    """Return the parameters of the embedding and the head, which may be tied."""
    table = (text.dimension("vocab_size") or 0) * (text.dimension("hidden_size") or 0)
    return table if text.config.flag("tie_word_embeddings") else 2 * table


def bits_of_type(dtype: str, paths: tuple[str, ...], config: Fields | None) -> int | None:
    """Return the bits of a weight from the file names, else from the type; None if unknown."""
    for variant, bits in _BITS_BY_NAME.items():
        if any(variant in path for path in paths):
            return bits
    if dtype:
        return _BITS.get(dtype)
    return _UNNAMED_BITS_OF_PARAMS if config is not None and config.file == "params.json" else _UNNAMED_BITS


def _bits_of_packing(packing: Packing) -> float | None:
    """Return the bits of a quantized weight, including its share of the scales; None if unknown."""
    if packing.method in _BITS_BY_METHOD:
        return _BITS_BY_METHOD[packing.method]
    bits = packing.bits or (4 if packing.method in _FOUR_BITS else 0)
    return bits + (_BITS_OF_SCALES if bits < 8 else 0) if bits else None  # noqa: PLR2004 - one byte per weight


def estimate_parameters(size_bytes: int, bits: float, *, unquantized: int = 0) -> int | None:
    """Return how many weights of this many bits fit into `size_bytes`.

    `unquantized` weights of 16 bits are included: quantizers leave the embedding and the head alone. For example, in a
    Llama 2 7B of 3.89 GB, quantized with AWQ, 262 million weights take 0.52 GB, and 3.37 GB at 4.16 bits are 6.48
    billion more.
    """
    if size_bytes > _MAX_BYTES:
        return None
    rest_bytes = size_bytes - 2 * unquantized
    if rest_bytes <= 0:
        rest_bytes, unquantized = size_bytes, 0
    found = unquantized + int(rest_bytes * 8 / bits)
    return found if 0 < found < MAX_PARAMETERS else None


def _totals_of_index(files: ModelFiles, weights: Weights) -> dict[str, int]:
    """Return `total_parameters` and `total_size` from the index of the shards, if present. Raises LarderError."""
    size = files.sizes.get(weights.index, 0)
    start = files.read(weights.index, 0, min(size, _INDEX_BYTES)) if size else b""
    return {name.decode(): int(number) for name, number in _TOTAL.findall(start)}
