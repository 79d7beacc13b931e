"""Checks that a file's content matches its kind: by magic bytes and headers, or the whole file if it is text."""

import codecs
import math
import re
from dataclasses import dataclass
from typing import BinaryIO

from shared.metadata.errors import MetadataError
from shared.metadata.formats.safetensors import PREFIX_BYTES, count_header, header_bytes, whole_header
from shared.metadata.formats.tensors import TensorTotals

# Control characters that text never contains; tabs, line breaks, form feeds and escapes are allowed.
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\v\f\r\x1b"})
_CHUNK_BYTES = 2**20
_LONGEST_TEXT_BYTES = 2**30
# The header as numpy writes it: one plain type, no fields, no objects.
_ARRAY = re.compile(
    rb"\x93NUMPY(?:\x01\0(?P<short>..)|[\x02\x03]\0(?P<long>....))"
    rb"(?P<text>\{'descr': '[<>|=](?P<type>[biufcSUmMV])(?P<width>\d{1,9})(?:\[\w{1,8}\])?', "
    rb"'fortran_order': (?:True|False), 'shape': \((?P<shape>[0-9, ]{0,640})\), \} *\n)",
    re.DOTALL,
)
_LENGTH = re.compile(rb"\d+")
_CHARACTER_BYTES = 4  # per character of numpy's type U
# The first field of the protobuf is the ONNX version; the field after it is a number or bytes.
_ONNX = re.compile(rb"\x08[\x01-\x7f](?:[\x12\x1a\x22\x28\x32\x3a\x42\x72]|\xa2\x01|\xca\x01)")
_SENTENCEPIECE = re.compile(rb"\n[\x01-\xff]\x01?\n")  # the first piece, which starts with its text
_MEDIA = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....(?:WEBP|WAVE|AVI )|BM....\0\0\0\0|\0\0\x01\0|(?:II\*\0|MM\0\*)"
    rb"|%PDF-|fLaC|OggS|ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb]|\0...(?:ftyp|wide|moov)|\x1aE\xdf\xa3",
    re.DOTALL,
)
_FONT = re.compile(rb"\0\x01\0\0|true|OTTO|ttcf|wOFF|wOF2")
# Three GGML formats, and CTranslate2.
_NATIVE = re.compile(rb"lmgg|fmgg|tjgg|[\x01-\x1f]\0\0\0.\0[A-Za-z0-9]{1,60}Spec\0", re.DOTALL)
_EVENTS = re.compile(rb".\0{7}....\x09.{8}\x1a.brain\.Event:\d", re.DOTALL)  # record length, timestamp, version
_FINDER = b"\0\0\0\x01Bud1"


@dataclass(frozen=True, slots=True)
class Content:
    """A file and its first bytes."""

    file: BinaryIO
    size: int
    head: bytes


def is_safetensors(content: Content) -> bool:
    """Return whether the header accounts for every byte of the file. Raises OSError."""
    try:
        length = header_bytes("", content.head[:PREFIX_BYTES], content.size)
        content.file.seek(PREFIX_BYTES)
        header = whole_header("", b"", content.file.read(length), length)
        count_header("", header, content.size - PREFIX_BYTES - length, TensorTotals())
    except MetadataError:
        return False
    return True


def is_gguf(content: Content) -> bool:
    """Return whether it is GGUF of a known version."""
    return re.match(rb"GGUF(?:[\x01-\x03]\0\0\0|\0\0\0[\x01-\x03])", content.head) is not None


def is_onnx(content: Content) -> bool:
    """Return whether it is a protobuf that starts like an ONNX model."""
    return _ONNX.match(content.head) is not None


def is_tflite(content: Content) -> bool:
    """Return whether it is a TensorFlow Lite flatbuffer."""
    return content.head[4:8] == b"TFL3"


def is_array(content: Content) -> bool:
    """Return whether it is a single array of plain numbers or strings, and nothing else."""
    header = _ARRAY.match(content.head)
    if header is None or int.from_bytes(header["short"] or header["long"], "little") != len(header["text"]):
        return False
    item_bytes = int(header["width"]) * (_CHARACTER_BYTES if header["type"] == b"U" else 1)
    return content.size == header.end() + item_bytes * math.prod(map(int, _LENGTH.findall(header["shape"])))


def is_tokenizer(content: Content) -> bool:
    """Return whether it is a sentencepiece model or plain text."""
    return _SENTENCEPIECE.match(content.head) is not None or is_text(content)


def is_media(content: Content) -> bool:
    """Return whether it is an image, audio, a video or a PDF."""
    return _MEDIA.match(content.head) is not None


def is_font(content: Content) -> bool:
    """Return whether it is a font."""
    return _FONT.match(content.head) is not None


def is_event_log(content: Content) -> bool:
    """Return whether its first record is the one that starts every TensorBoard log."""
    return _EVENTS.match(content.head) is not None


def is_finder_view(content: Content) -> bool:
    """Return whether it is a .DS_Store file, as macOS leaves in folders."""
    return content.head.startswith(_FINDER)


def is_native(content: Content) -> bool:
    """Return whether it belongs to a C++ runtime that names its weights `.bin`, as PyTorch names its pickles."""
    return _NATIVE.match(content.head) is not None


def is_text(content: Content) -> bool:
    """Return whether all of it is UTF-8 without control characters and short enough to read. Raises OSError."""
    if content.size > _LONGEST_TEXT_BYTES:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    content.file.seek(0)
    try:
        while chunk := content.file.read(_CHUNK_BYTES):
            if len(chunk.translate(None, _CONTROLS)) != len(chunk):
                return False
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
