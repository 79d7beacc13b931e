"""Reads the headers of all weight files, several at a time, each by one or two small reads."""

import threading
from concurrent.futures import ThreadPoolExecutor

from shared.metadata.files import ModelFiles
from shared.metadata.formats.gguf import GgufHeader, read_gguf
from shared.metadata.formats.safetensors import FIRST_BYTES, PREFIX_BYTES, count_header, header_bytes, whole_header
from shared.metadata.formats.tensors import TensorTotals
from shared.metadata.selection import Weights

_AT_A_TIME = 12
_SMALL_BYTES = 4 * FIRST_BYTES


def count_safetensors(files: ModelFiles, weights: Weights, totals: TensorTotals) -> None:
    """Add the tensors of all files to the totals. Raises LarderError, that of the first file if several fail."""
    lock = threading.Lock()

    def count_one(path: str) -> None:
        size = files.sizes[path]
        first = files.read(path, 0, min(FIRST_BYTES, size))
        length = header_bytes(path, first, size)
        data_bytes = size - PREFIX_BYTES - length
        rest = b""
        if len(first) < PREFIX_BYTES + length <= _SMALL_BYTES:
            rest = files.read(path, len(first), PREFIX_BYTES + length - len(first))
        with lock:  # one header is parsed at a time, so at most one large one is in memory
            if PREFIX_BYTES + length > max(_SMALL_BYTES, len(first)):
                rest = files.read(path, len(first), PREFIX_BYTES + length - len(first))
            count_header(path, whole_header(path, first, rest, length), data_bytes, totals)

    with ThreadPoolExecutor(min(_AT_A_TIME, len(weights.files)), thread_name_prefix="metadata") as pool:
        pending = [pool.submit(count_one, path) for path in weights.files]
        try:
            for one in pending:
                one.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def count_gguf(files: ModelFiles, weights: Weights, totals: TensorTotals) -> GgufHeader:
    """Add the tensors of all parts to the totals and return the header of the first."""

    def read_one(path: str) -> GgufHeader:
        return read_gguf(path, files.sizes[path], lambda offset, count: files.read(path, offset, count), totals)

    first, *_ = [read_one(path) for path in weights.files]
    return first
