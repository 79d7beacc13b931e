"""The accepted kinds of files: the name selects the loader, and the content must be what that loader expects."""

import io
import re
from collections.abc import Callable
from typing import BinaryIO

from shared.safe_files.contents import (
    Content,
    is_array,
    is_event_log,
    is_finder_view,
    is_font,
    is_gguf,
    is_media,
    is_native,
    is_onnx,
    is_safetensors,
    is_text,
    is_tflite,
    is_tokenizer,
)
from shared.safe_files.disguises import HEAD_BYTES, TAIL_BYTES, why_disguised

_MEDIA = (
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tif", ".tiff", ".avif", ".pdf",
    ".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".mp4", ".mov", ".webm", ".mkv", ".avi",
)  # fmt: skip
_FONTS = (".ttf", ".otf", ".ttc", ".woff", ".woff2")

# Matched against the end of the name; the first match wins. A file with any other name must be text.
_KINDS: tuple[tuple[tuple[str, ...] | re.Pattern[str], str, Callable[[Content], bool]], ...] = (
    ((".safetensors",), "not a safetensors file", is_safetensors),
    ((".gguf",), "not a GGUF file", is_gguf),
    ((".onnx",), "not an ONNX model", is_onnx),
    ((".tflite",), "not a TensorFlow Lite model", is_tflite),
    ((".npy",), "not an array of plain values", is_array),
    (re.compile(r"\.(?:model(?:\.v\d{1,3}(?:m\d{1,3})?)?|spm)\Z"), "not a tokenizer model", is_tokenizer),
    (_MEDIA, "not an image, audio, video or PDF", is_media),
    (_FONTS, "not a font", is_font),
    ((".bin",), "neither GGML nor CTranslate2", is_native),
    (re.compile(r"(?:\A|/)events\.out\.tfevents\.[^/]*\Z"), "not a TensorBoard log", is_event_log),
    (re.compile(r"(?:\A|/)\.ds_store\Z"), "not a .DS_Store file", is_finder_view),
)
_RAW = re.compile(r"\.onnx[._]data(?:_\d{1,4})?\Z")  # raw tensor values without a format; ONNX maps them as they are
_UNPICKLED = (
    ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".dill", ".npz", ".h5", ".he5", ".hdf", ".hdf5", ".keras",
    ".msgpack", ".ot", ".dat", ".dir", "saved_model.pbtxt",
)  # fmt: skip


def why_unsafe(name: str, file: BinaryIO, size: int) -> str:
    """Return why a file may be a pickle, phrased to follow its name, or an empty string. Raises OSError."""
    if not size:
        return ""
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(max(0, size - TAIL_BYTES), io.SEEK_SET)
    tail = file.read(TAIL_BYTES)
    return why_disguised(file, size, head, tail) or _why_not_its_kind(name.lower(), Content(file, size, head))


def _why_not_its_kind(name: str, content: Content) -> str:
    if name.endswith(_UNPICKLED):
        return "has a file type that may contain a pickle"
    if _RAW.search(name):
        return ""
    for pattern, mismatch, is_kind in _KINDS:
        if pattern.search(name) if isinstance(pattern, re.Pattern) else name.endswith(pattern):
            return "" if is_kind(content) else f"is {mismatch}"
    return "" if is_text(content) else "is not of a type that is known to be free of pickles"
