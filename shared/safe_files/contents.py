"""Whether a file's content is of its kind: what its readers go by, from its start, its end and its headers."""

import codecs
import re
from dataclasses import dataclass
from typing import BinaryIO

from shared.metadata.errors import MetadataError
from shared.metadata.safetensors import PREFIX_BYTES, header_bytes, tally_header, whole_header
from shared.metadata.tensors import Tally

# A text has none of these; a tab, ends of lines and pages, and an escape are none of them.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CONTINUATION = re.compile(rb"[\x80-\xbf]{0,3}")
# As numpy writes it: one plain type, no fields, no objects.
_ARRAY = re.compile(
    rb"\x93NUMPY(?:\x01\0..|[\x02\x03]\0....)"
    rb"\{'descr': '[<>|=][biufcSUmMV]\d{1,9}(?:\[\w{1,8}\])?', 'fortran_order': (?:True|False), "
    rb"'shape': \([0-9, ]{0,640}\), \} *\n",
    re.DOTALL,
)
# The next field of a protobuf after the first one, which is the version of ONNX: a number, or bytes.
_ONNX = re.compile(rb"\x08[\x01-\x7f](?:[\x12\x1a\x22\x28\x32\x3a\x42\x72]|\xa2\x01|\xca\x01)")
_SENTENCEPIECE = re.compile(rb"\n[\x01-\xff]\x01?\n")  # its first piece, and in it the text
_MEDIA = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....(?:WEBP|WAVE|AVI )|BM....\0\0\0\0|\0\0\x01\0|(?:II\*\0|MM\0\*)"
    rb"|%PDF-|fLaC|OggS|ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb]|\0\0..ftyp|\x1aE\xdf\xa3",
    re.DOTALL,
)
_NATIVE = re.compile(rb"lmgg|[\x01-\x1f]\0\0\0.\0[A-Za-z0-9]{1,60}Spec\0", re.DOTALL)  # GGML, CTranslate2


@dataclass(frozen=True, slots=True)
class Content:
    """A file, with its first and last bytes."""

    file: BinaryIO
    size: int
    head: bytes
    tail: bytes


def is_safetensors(content: Content) -> bool:
    """Return whether a header describes each byte of the file. Raises OSError."""
    try:
        length = header_bytes("", content.head[:PREFIX_BYTES], content.size)
        content.file.seek(PREFIX_BYTES)
        header = whole_header("", b"", content.file.read(length), length)
        tally_header("", header, content.size - PREFIX_BYTES - length, Tally())
    except MetadataError:
        return False
    return True


def is_gguf(content: Content) -> bool:
    """Return whether it is GGUF of a version that exists."""
    return re.match(rb"GGUF(?:[\x01-\x03]\0\0\0|\0\0\0[\x01-\x03])", content.head) is not None


def is_onnx(content: Content) -> bool:
    """Return whether a protobuf begins as ONNX models do."""
    return _ONNX.match(content.head) is not None


def is_tflite(content: Content) -> bool:
    """Return whether it is a flatbuffer of TensorFlow Lite."""
    return content.head[4:8] == b"TFL3"


def is_array(content: Content) -> bool:
    """Return whether it is an array of plain numbers or texts."""
    return _ARRAY.match(content.head) is not None


def is_tokenizer(content: Content) -> bool:
    """Return whether it is a model of sentencepiece, or one in text."""
    return _SENTENCEPIECE.match(content.head) is not None or is_text(content)


def is_media(content: Content) -> bool:
    """Return whether it is a picture, a sound, a film or a page."""
    return _MEDIA.match(content.head) is not None


def is_native(content: Content) -> bool:
    """Return whether it is of a C++ runtime that calls its weights `.bin`, as PyTorch does its pickles."""
    return _NATIVE.match(content.head) is not None


def is_text(content: Content) -> bool:
    """Return whether start and end are UTF-8 without control characters."""
    if _CONTROLS.search(content.head) or _CONTROLS.search(content.tail):
        return False
    whole = content.size <= len(content.head)
    cut = _CONTINUATION.match(content.tail) if content.size > len(content.tail) else None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content.head, final=whole)
        content.tail[cut.end() if cut else 0 :].decode()
    except UnicodeDecodeError:
        return False
    return True
