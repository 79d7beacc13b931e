"""Small model files for tests."""

import json
import os
import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from shared.metadata.files import MemoryFiles
from shared.metadata.formats.tensors import BITS
from shared.metadata.model_metadata import Metadata
from shared.metadata.reader import read_metadata

DATA = Path(__file__).parent / "configurations"
CONFIGURATIONS = sorted(path.stem for path in DATA.glob("*.json"))


def config_of(name: str) -> dict[str, Any]:
    """Return a published configuration, reduced to the fields that are read."""
    found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return found


def safetensors(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """Return a file of zeros with these tensors: name -> (type, shape)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, (kind, shape) in tensors.items():
        size = prod(shape) * BITS[kind] // 8
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [position, position + size]}
        position += size
    return with_header(json.dumps(header).encode(), position)


def with_header(header: bytes, data_bytes: int) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(data_bytes)


def gguf_text(text: str) -> bytes:
    body = text.encode()
    return struct.pack("<Q", len(body)) + body


def gguf(
    keys: Mapping[str, Any], tensors: Mapping[str, tuple[int, Sequence[int], int]], *, data_bytes: int = 0
) -> bytes:
    """Return a file with keys of int, float, bool, str or a list of int or str; tensors: (type, shape, offset)."""
    body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    body += b"".join(gguf_text(key) + gguf_value(value) for key, value in keys.items())
    for name, (kind, shape, offset) in tensors.items():
        body += gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return body + bytes(-len(body) % 32) + bytes(data_bytes)


def gguf_value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + gguf_text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(gguf_text(item) for item in value)
        case list():
            return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
    raise TypeError(value)


def read(**files: Any) -> Metadata:
    """Read a model; `config_json={...}` stands for the file config.json, bytes are written as they are."""
    return read_files({_path(name): body for name, body in files.items()})


def read_files(files: Mapping[str, Any]) -> Metadata:
    """Read a model of these files; values other than bytes are written as JSON."""
    bodies = {path: body if isinstance(body, bytes) else json.dumps(body).encode() for path, body in files.items()}
    return read_metadata(MemoryFiles(bodies))


def _path(name: str) -> str:
    stem, _, suffix = name.replace("__", "/").rpartition("_")
    return f"{stem}.{suffix}"


INDEX = {
    "_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30.0",
    "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
    "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
    "scheduler": ["diffusers", "PNDMScheduler"], "feature_extractor": ["transformers", "CLIPImageProcessor"],
    "safety_checker": [None, None],
}  # fmt: skip


PIPELINE = {"model_index.json": INDEX, "unet/config.json": {"_class_name": "UNet2DConditionModel"}}


_HEADER_BYTES = 120


def random_safetensors(size_bytes: int) -> bytes:
    """Return a safetensors file of this many bytes, with one random tensor."""
    count = size_bytes - 8 - _HEADER_BYTES
    header = json.dumps({"w": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}).encode()
    return struct.pack("<Q", _HEADER_BYTES) + header.ljust(_HEADER_BYTES) + os.urandom(count)
