"""Reads the headers of all weight files, several at a time, each by one or two small reads."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from shared.metadata.files import ModelFiles
from shared.metadata.formats.gguf import GgufHeader, read_gguf
from shared.metadata.formats.safetensors import FIRST_BYTES, PREFIX_BYTES, count_header, header_bytes, whole_header
from shared.metadata.formats.tensors import TensorTotals
from shared.metadata.weights import Weights

_AT_A_TIME = 12
_SMALL_BYTES = 4 * FIRST_BYTES


@dataclass(frozen=True, slots=True)
class _Head:
    """The beginning of a file, long enough for a small header; `length` is the length of its JSON."""

    path: str
    beginning: bytes
    length: int

    @property
    def missing_bytes(self) -> int:
        return max(0, PREFIX_BYTES + self.length - len(self.beginning))


def count_safetensors(files: ModelFiles, weights: Weights, totals: TensorTotals) -> None:
    """Add the tensors of all files to the totals. Raises LarderError; if several files fail, the first file's.

    The files are counted in their order, so a name that has several shapes always gives the same totals. At most one
    large header is in memory.
    """
    paths = weights.files
    with ThreadPoolExecutor(min(_AT_A_TIME, len(paths)), thread_name_prefix="metadata") as pool:
        for start in range(0, len(paths), _AT_A_TIME):
            for head in pool.map(partial(_read_head, files), paths[start : start + _AT_A_TIME]):
                _count(files, head, totals)


def _read_head(files: ModelFiles, path: str) -> _Head:
    size = files.sizes[path]
    beginning = files.read(path, 0, min(FIRST_BYTES, size))
    head = _Head(path, beginning, header_bytes(path, beginning, size))
    if head.missing_bytes and len(beginning) + head.missing_bytes <= _SMALL_BYTES:
        return replace(head, beginning=beginning + files.read(path, len(beginning), head.missing_bytes))
    return head


def _count(files: ModelFiles, head: _Head, totals: TensorTotals) -> None:
    rest = files.read(head.path, len(head.beginning), head.missing_bytes) if head.missing_bytes else b""
    data_bytes = files.sizes[head.path] - PREFIX_BYTES - head.length
    count_header(head.path, whole_header(head.path, head.beginning, rest, head.length), data_bytes, totals)


def count_gguf(files: ModelFiles, weights: Weights, totals: TensorTotals) -> GgufHeader:
    """Add the tensors of all parts to the totals and return the header of the first."""

    def read_one(path: str) -> GgufHeader:
        return read_gguf(path, files.sizes[path], lambda offset, count: files.read(path, offset, count), totals)

    first, *_ = [read_one(path) for path in weights.files]
    return first
