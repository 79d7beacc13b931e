"""The start of what a file has compressed, as the readers of Python and joblib would have it."""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from shared.pickles.parts import PEEK_BYTES, Budget, UnreadableError

_USUAL_LZMA = 0x5D
_PIECE_BYTES = 256
_FEW_BYTES = 4096  # at one time, so that no reader gets more than we do before something broken
_ERRORS = (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, MemoryError)
# Frames of zstd and lz4, and those that both skip.
_UNKNOWN = re.compile(rb"\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|[\x50-\x5f]\x2a\x4d\x18")
_LEAST_BYTES = PEEK_BYTES // 2  # of a start; nothing that only compresses makes its data so much larger
_ZF_BYTES = 2 + 19  # joblib's first form: two letters, the length in hex, and at times a blank


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zlib:
    """What zlib and gzip use, with the methods of the other two."""

    def __init__(self, window_bits: int) -> None:
        self._zlib = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The first bytes of what was compressed; `cut` is whether more may follow."""

    data: bytes
    cut: bool


def unpack(file: BinaryIO, size: int, head: bytes, budget: Budget, *, cut: bool) -> Unpacked | None:
    """Return the start of what a file has compressed, None where it is not. Raises UnreadableError, OSError.

    `cut` is whether only the start of the file is here.
    """
    if _UNKNOWN.match(head):
        raise UnreadableError("is compressed by zstd or lz4, and cannot be looked through")
    for new, offset in _ways(head):
        file.seek(offset)
        source = io.BytesIO(file.read(PEEK_BYTES))
        found = _first_bytes(source, new, budget)
        if found is None or (not found.data and _may_be_a_name(head)):
            continue
        more = cut or offset + PEEK_BYTES < size
        if more and len(found.data) < _LEAST_BYTES:
            raise UnreadableError("is compressed so that too little of it can be looked at")
        return Unpacked(found.data, more or found.cut)
    return None


def _ways(head: bytes) -> list[tuple[Callable[[], _Decompressor], int]]:
    """Return what may decompress a file, and from where on."""
    if head.startswith(b"\x1f\x8b") or (head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0):
        return [(lambda: _Zlib(47), 0)]
    if head.startswith(b"ZF"):
        return [(lambda: _Zlib(15), _ZF_BYTES), (lambda: _Zlib(15), _ZF_BYTES + 1)]
    if head.startswith(b"BZh"):
        return [(bz2.BZ2Decompressor, 0)]
    if head.startswith(b"\xfd7zXZ\x00") or _is_lzma(head):
        return [(lzma.LZMADecompressor, 0)]
    return []


def _is_lzma(head: bytes) -> bool:
    """Return whether the old form of LZMA may begin so: it has settings and lengths, but no name."""
    length = int.from_bytes(head[5:13], "little")
    return head[13:14] == b"\0" and head[0] < 9 * 5 * 5 and (length < 2**38 or length == 2**64 - 1)


def _may_be_a_name(head: bytes) -> bool:
    """Return whether a letter and zeros begin the file: a tar archive at times, or numbers, and an empty LZMA too."""
    return head[0] != _USUAL_LZMA and not any(head[1:13])


def _first_bytes(source: io.BytesIO, new: Callable[[], _Decompressor], budget: Budget) -> Unpacked | None:
    """Decompress what stands one behind another, None where nothing does; what is broken counts as cut there."""
    out, one, empty = bytearray(), new(), False
    try:
        while len(out) < PEEK_BYTES:
            if one.eof:
                empty = not out
                source.seek(-len(one.unused_data), io.SEEK_CUR)
                _skip_zeros(source)
                budget.spend()
                one = new()
            piece = source.read(_PIECE_BYTES) if one.needs_input else b""
            found = one.decompress(piece, min(_FEW_BYTES, PEEK_BYTES - len(out)))
            out += found
            if not (piece or found or one.eof):
                break
    except _ERRORS:
        return Unpacked(bytes(out), cut=True) if out or empty else None
    finally:
        budget.spend(unpacked_bytes=len(out))
    return Unpacked(bytes(out), cut=len(out) == PEEK_BYTES)


def _skip_zeros(source: io.BytesIO) -> None:
    """Go on to where the next member may begin."""
    while (piece := source.read(_FEW_BYTES)) and not piece.strip(b"\0"):
        pass
    source.seek(-len(piece.lstrip(b"\0")), io.SEEK_CUR)
