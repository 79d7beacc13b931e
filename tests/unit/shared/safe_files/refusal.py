"""Whether a file is refused under every name that could be accepted."""

import io

from shared.safe_files.file_kinds import why_unsafe

# One name of each kind, and some that only texts may have.
NAMES = (
    "model.safetensors", "model.gguf", "model.onnx", "model.onnx_data", "model.tflite", "model.bin", "model.npy",
    "tokenizer.model", "picture.png", "config.json", "README", "modeling_x.py", "vocab.txt", "weights", "model.pt",
    "data.pkl", "model.npz", "model.nemo",
)  # fmt: skip


def why(data: bytes, name: str) -> str:
    """Return why a file of this name and content is refused, or ""."""
    return why_unsafe(name, io.BytesIO(data), len(data))


def accepting_names(data: bytes) -> list[str]:
    """Return the names under which a content is accepted."""
    return [name for name in NAMES if not why(data, name)]
