"""Reads keys and tensors from the headers of GGUF files through a small window; skips long lists of tokens."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from shared.metadata.errors import MetadataMalformed, MetadataOversized
from shared.metadata.formats.gguf_types import TENSOR_TYPES, VALUE_FORMATS
from shared.metadata.formats.tensors import LONGEST_NAME, TensorTotals

Value = int | float | bool | str | tuple[int, int]  # an array is represented by its length and element type
_WINDOW_BYTES = 256 * 1024
_MAX_HEADER_BYTES = 64 * 2**20
_MAX_KEYS = 10_000
_MAX_ELEMENTS = 4_000_000
_MAX_TENSORS = 100_000
_MAX_DIMENSIONS = 8
_MAX_PER_BYTE = 8  # elements; the smallest has one bit
_LONGEST_TEXT_BYTES = 256 * 1024
_KEPT_CHARACTERS = 512  # chat templates are long, but only their presence matters
_MAX_COMPARED = 1024  # largest array whose maximum is computed: one element per layer
_STRING, _ARRAY = 8, 9
_DEFAULT_ALIGNMENT = 32


@dataclass(slots=True)
class GgufHeader:
    """Keys by name, with the largest element of integer arrays; `tensors` is the number of tensors."""

    keys: dict[str, Value] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    tensors: int = 0


def read_gguf(file: str, size: int, read: Callable[[int, int], bytes], totals: TensorTotals) -> GgufHeader:
    """Return the keys of a file and add its tensors to the totals. Raises MetadataMalformed, MetadataOversized."""
    window = _Window(file, size, read)
    if window.take(4, "magic") != b"GGUF":
        raise MetadataMalformed(file, "magic", "is not GGUF")
    version = window.number("<I", "version")
    if version not in (2, 3):
        raise MetadataMalformed(file, "version", f"is {version}; only 2 and 3 are supported")
    header = GgufHeader(tensors=window.number("<Q", "tensor_count"))
    keys = window.number("<Q", "metadata_kv_count")
    if header.tensors > _MAX_TENSORS or keys > _MAX_KEYS:
        raise MetadataOversized(
            file, "header", f"announces {header.tensors} tensors and {keys} keys, which is too many"
        )
    for _ in range(keys):
        key = window.text("key", LONGEST_NAME)
        if key in header.keys:
            raise MetadataMalformed(file, key, "is repeated; remove one")
        header.keys[key] = _value(window, key, window.number("<I", key), header)
    _count_tensors(window, header, totals)
    return header


def _value(window: "_Window", key: str, kind: int, header: GgufHeader) -> Value:
    if kind == _STRING:
        return window.text(key, _LONGEST_TEXT_BYTES)[:_KEPT_CHARACTERS]
    if kind == _ARRAY:
        return _array(window, key, header)
    if kind not in VALUE_FORMATS:
        raise MetadataMalformed(window.file, key, f"has the value type {kind}, which does not exist")
    (value,) = struct.unpack(VALUE_FORMATS[kind], window.take(struct.calcsize(VALUE_FORMATS[kind]), key))
    found: Value = value
    return found


def _array(window: "_Window", key: str, header: GgufHeader) -> tuple[int, int]:
    kind, length = window.number("<I", key), window.number("<Q", key)
    if length > _MAX_ELEMENTS:
        raise MetadataOversized(window.file, key, f"has {length} elements; the limit is {_MAX_ELEMENTS}")
    if kind == _STRING:
        window.skip_texts(length, key)
    elif kind in VALUE_FORMATS:
        wide = struct.calcsize(VALUE_FORMATS[kind])
        if length <= _MAX_COMPARED and kind not in (6, 7, 12):
            body = window.take(wide * length, key)
            header.largest[key] = max((v for (v,) in struct.iter_unpack(VALUE_FORMATS[kind], body)), default=0)
        else:
            window.skip(wide * length, key)
    else:
        raise MetadataMalformed(window.file, key, f"is an array of type {kind}, which is not supported")
    return length, kind


def _count_tensors(window: "_Window", header: GgufHeader, totals: TensorTotals) -> None:
    ends: list[tuple[int, str]] = []
    names: set[str] = set()
    for _ in range(header.tensors):
        name = window.text("tensor name", LONGEST_NAME)
        dimensions = window.number("<I", name)
        if dimensions > _MAX_DIMENSIONS:
            raise MetadataMalformed(window.file, name, f"has {dimensions} dimensions")
        if name in names:
            raise MetadataMalformed(window.file, name, "is repeated; remove one")
        names.add(name)
        shape = struct.unpack(f"<{dimensions}Q", window.take(8 * dimensions, name))
        kind, offset = window.number("<I", name), window.number("<Q", name)
        label, block, block_bytes = TENSOR_TYPES.get(kind, (f"type {kind}", 1, 0))
        if prod(shape) > _MAX_PER_BYTE * window.size:
            problem = f"has {prod(shape)} elements in a file of {window.size} bytes; the file is truncated or invalid"
            raise MetadataMalformed(window.file, name, problem)
        ends.append((offset + prod(shape) // block * block_bytes, name))
        totals.add(window.file, name, label, shape)
    alignment = header.keys.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment <= 2**20:
        raise MetadataMalformed(window.file, "general.alignment", "is not a valid alignment")
    start = -(-window.position // alignment) * alignment
    end, name = max(ends, default=(0, ""))
    if start + end > window.size and ends:
        problem = f"ends at byte {start + end} of a file of {window.size}; the file is truncated or invalid"
        raise MetadataMalformed(window.file, name, problem)


class _Window:
    """The bytes of a file from `position` on, partly in memory."""

    def __init__(self, file: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self.file, self.size, self._read = file, size, read
        self._part, self._start, self._at = b"", 0, 0

    @property
    def position(self) -> int:
        return self._start + self._at

    def take(self, count: int, what: str) -> bytes:
        """Return the next bytes. Raises MetadataMalformed if the file ends too early."""
        if self._at + count > len(self._part):
            self._fill(count, what)
        found = self._part[self._at : self._at + count]
        self._at += count
        return found

    def number(self, form: str, what: str) -> int:
        found: int = struct.unpack(form, self.take(struct.calcsize(form), what))[0]
        return found

    def text(self, what: str, max_bytes: int) -> str:
        length = self.number("<Q", what)
        self._check(length, what)
        if length > max_bytes:
            raise MetadataOversized(self.file, what, f"is a string of {length} bytes; the limit is {max_bytes}")
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError as error:
            raise MetadataMalformed(self.file, what, "is not UTF-8") from error

    def skip(self, count: int, what: str) -> None:
        self._check(count, what)
        self._at += count

    def skip_texts(self, count: int, what: str) -> None:
        unpack = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if self._at + 8 > len(self._part):
                self._fill(8, what)
            length = unpack(self._part, self._at)[0]
            self._at += 8 + length
            if self._at > len(self._part):
                self._at -= length
                self.skip(length, what)

    def _check(self, count: int, what: str) -> None:
        if self.position + count > self.size:
            raise MetadataMalformed(self.file, what, f"announces {count} bytes, but the file has only {self.size}")
        if self.position + count > _MAX_HEADER_BYTES:
            raise MetadataOversized(self.file, what, f"the header is longer than {_MAX_HEADER_BYTES} bytes")

    def _fill(self, count: int, what: str) -> None:
        self._check(count, what)
        position = self.position
        wanted = min(max(_WINDOW_BYTES, count), self.size - position)
        self._part, self._start, self._at = self._read(position, wanted), position, 0
        if len(self._part) < count:
            raise MetadataMalformed(self.file, what, "is truncated")
