"""A model of 163 sparse shards with headers as large as those of a 671B model."""

import json
from pathlib import Path

from tests.builders.model_files import config_of

SHARDS = 163
CONFIG = config_of("deepseek-v3")
TENSORS = 280  # a shard, and as many scales


def write_model(folder: Path, data_bytes: int = 64) -> int:
    """Write the model and return its number of parameters; each tensor has `data_bytes` bytes, which are holes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for number in range(1, SHARDS + 1):
        header, position = {}, 0
        for i in range(TENSORS):
            name = f"model.layers.{number}.mlp.experts.{i}.gate_proj.weight"
            for key, kind, size in ((name, "F8_E4M3", data_bytes), (f"{name}_scale_inv", "F32", 4)):
                shape = [size] if kind == "F8_E4M3" else [1]
                header[key] = {"dtype": kind, "shape": shape, "data_offsets": [position, position + size]}
                position += size
        body = json.dumps(header).encode()
        with (folder / f"model-{number:05d}-of-{SHARDS:05d}.safetensors").open("wb") as file:
            file.write(len(body).to_bytes(8, "little") + body)
            file.truncate(8 + len(body) + position)
    return SHARDS * TENSORS * data_bytes
