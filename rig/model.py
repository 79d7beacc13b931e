"""A small but valid Llama-style model: configuration, tokenizer, sharded safetensors with their index."""

import json
import math
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig import tokenizer

_MIB = 1024 * 1024
_WIDTHS = (4096, 2048, 1024, 512, 256, 128, 64, 32)
_ENOUGH_LAYERS = 8
_HEAD_DIM = 16
_BF16_BYTES = 2
_ONE = b"\x80\x3f"
# The high bytes of bfloat16 numbers with absolute values from 0.0078 to 0.031, so that results stay finite.
_SMALL = bytes(0x3C if byte % 2 else 0xBC for byte in range(256))


@dataclass(frozen=True)
class Shape:
    """The dimensions of a Llama, which determine the sizes of all tensors."""

    width: int
    layers: int

    @property
    def inner(self) -> int:
        """The width of the feed-forward part."""
        return self.width * 8 // 3 // 8 * 8

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Return the dimensions of each tensor, in file order."""
        width, inner = self.width, self.inner
        layer = {
            "input_layernorm": (width,),
            "self_attn.q_proj": (width, width),
            "self_attn.k_proj": (width // 2, width),
            "self_attn.v_proj": (width // 2, width),
            "self_attn.o_proj": (width, width),
            "post_attention_layernorm": (width,),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        named: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (tokenizer.SIZE, width)}
        for number in range(self.layers):
            named |= {f"model.layers.{number}.{name}.weight": size for name, size in layer.items()}
        return named | {"model.norm.weight": (width,), "lm_head.weight": (tokenizer.SIZE, width)}

    def size_bytes(self) -> int:
        """Return the size of all tensors in bytes."""
        return sum(map(_bytes_of, self.tensors().values()))


def shape_for(size_bytes: int) -> Shape:
    """Return the widest shape with enough layers whose tensors have about this many bytes."""
    layers = 1
    for width in _WIDTHS:
        base = Shape(width, 0).size_bytes()
        layers = max(1, round((size_bytes - base) / (Shape(width, 1).size_bytes() - base)))
        if layers >= _ENOUGH_LAYERS:
            return Shape(width, layers)
    return Shape(_WIDTHS[-1], layers)


def write_model(folder: Path, *, size_bytes: int = 24 * _MIB, shards: int = 3, seed: int = 0) -> Path:
    """Write a whole model and return its directory; the same arguments write the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape_for(size_bytes)
    for name, content in {**_settings(shape), **tokenizer.files()}.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_readme(shape), encoding="utf-8")
    _write_weights(folder, shape, shards, random.Random(seed))  # noqa: S311 - weights, not secrets
    return folder


def _write_weights(folder: Path, shape: Shape, shards: int, source: random.Random) -> None:
    weight_map: dict[str, str] = {}
    groups = split(shape.tensors(), shards)
    for number, group in enumerate(groups, start=1):
        name = f"model-{number:05}-of-{len(groups):05}.safetensors"
        weight_map |= dict.fromkeys(group, name)
        with (folder / name).open("wb") as out:
            out.write(header(group))
            for tensor, dimensions in group.items():
                for piece in _values(tensor, _bytes_of(dimensions), source):
                    out.write(piece)
    index = {"metadata": {"total_size": shape.size_bytes()}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def split(tensors: dict[str, tuple[int, ...]], shards: int) -> list[dict[str, tuple[int, ...]]]:
    """Split the tensors into groups of about equal size, in order."""
    share = sum(map(_bytes_of, tensors.values())) / shards
    groups: list[dict[str, tuple[int, ...]]] = [{} for _ in range(shards)]
    before = 0
    for name, dimensions in tensors.items():
        groups[min(int(before / share), shards - 1)][name] = dimensions
        before += _bytes_of(dimensions)
    return [group for group in groups if group]


def header(tensors: dict[str, tuple[int, ...]]) -> bytes:
    """Return the header of a safetensors file: its length, and JSON padded to eight bytes."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, dimensions in tensors.items():
        end = start + _bytes_of(dimensions)
        entries[name] = {"dtype": "BF16", "shape": list(dimensions), "data_offsets": [start, end]}
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _values(tensor: str, size_bytes: int, source: random.Random) -> Iterator[bytes]:
    if "norm" in tensor:
        yield _ONE * (size_bytes // _BF16_BYTES)
        return
    for start in range(0, size_bytes, _MIB):
        count = min(_MIB, size_bytes - start) // _BF16_BYTES
        piece = bytearray(count * _BF16_BYTES)
        piece[0::2] = source.randbytes(count)
        piece[1::2] = source.randbytes(count).translate(_SMALL)
        yield bytes(piece)


def _bytes_of(dimensions: tuple[int, ...]) -> int:
    return math.prod(dimensions) * _BF16_BYTES


def _settings(shape: Shape) -> dict[str, dict[str, Any]]:
    heads = shape.width // _HEAD_DIM
    ends = {"bos_token_id": tokenizer.BEGIN_ID, "eos_token_id": tokenizer.END_ID}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "head_dim": _HEAD_DIM,
        "vocab_size": tokenizer.SIZE,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "transformers_version": "4.57.0",
        **ends,
    }
    generation = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.57.0", **ends}
    return {"config.json": config, "generation_config.json": generation}


def _readme(shape: Shape) -> str:
    return (
        "---\nlicense: apache-2.0\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n"
        f"# A small Llama\n\n{shape.layers} layers of width {shape.width} with random weights: "
        "every file is valid, but the model is only useful for testing how models are delivered.\n"
    )
