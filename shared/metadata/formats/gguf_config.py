"""Translates the keys of a GGUF file into the fields of a `config.json`."""

from collections.abc import Mapping
from typing import Any

from shared.metadata.fields import Fields
from shared.metadata.formats.gguf import GgufHeader
from shared.metadata.formats.gguf_types import FILE_TYPES

_FIELDS: Mapping[str, str] = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "vocab_size": "vocab_size",
}


def config_of_gguf(file: str, header: GgufHeader) -> Fields:
    """Return the header as a configuration; numbers that vary by layer become their maximum."""
    keys, kind = header.keys, header.keys.get("general.architecture", "")
    values: dict[str, Any] = {"model_type": kind}
    for name, common in _FIELDS.items():
        value = keys.get(f"{kind}.{name}")
        if isinstance(value, tuple):
            value = header.largest.get(f"{kind}.{name}")
        if value is not None:
            values[common] = value
    tokens = keys.get("tokenizer.ggml.tokens")
    if isinstance(tokens, tuple):
        values.setdefault("vocab_size", tokens[0])
    return Fields(file, values)


def quantization_of_gguf(header: GgufHeader, main_type: str) -> str:
    """Return the type of the file, for example `Q4_K_M`, else the type of most weights. Empty for plain floats."""
    named = header.keys.get("general.file_type")
    kind = FILE_TYPES.get(named, main_type) if isinstance(named, int) else main_type
    return "" if kind in ("F32", "F16", "BF16") else kind


def text_of_key(header: GgufHeader, key: str) -> str:
    """Return the value of a key; empty if it is not a string."""
    value = header.keys.get(key)
    return value if isinstance(value, str) else ""
