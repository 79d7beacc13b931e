"""Zip archives, found and read from their end, as zipfile and torch do it."""

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from shared.pickles.parts import MOST_PARTS, PEEK_BYTES, Budget, Part, UnreadableError

_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_MEMBER = b"PK\x03\x04"
_LISTED = b"PK\x01\x02"
_END = b"PK\x05\x06"
_END_BYTES = 22
_LONGEST_COMMENT = 65_536
_LONG_END, _LONG_END_BYTES = b"PK\x06\x06", 56
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_MOST_DIRECTORY_BYTES = 32 * 2**20
_LOCAL = struct.Struct("<4s2xHH8xI4xHH")  # what it is, flags, method, packed size, lengths of name and extra field
_SIZE_FOLLOWS = 8
_RARE_METHODS = (zipfile.ZIP_LZMA, 93, 95)  # the last two: zstd, xz
_UNREADABLE = "is a zip archive that cannot be looked through"
_ERRORS = (
    zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError,
    MemoryError, OverflowError, struct.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Directory:
    """Where the list of members begins: counted from the end, and as the end itself has it; and its bytes."""

    start: int
    told: int
    size: int


def starts_as_zip(head: bytes) -> bool:
    """Return whether a file begins as an archive does that has nothing in front."""
    return head.startswith(_STARTS)


def ends_as_zip(file: BinaryIO, size: int) -> bool:
    """Return whether a reader would find the list of an archive's members from the end. Raises OSError."""
    directory = _find(file, size)
    return directory is not None and any(_at(file, place, 4) == _LISTED for place in (directory.start, directory.told))


def zip_parts(file: BinaryIO, size: int, budget: Budget) -> Iterator[Part]:
    """Go through the members; of each the start. Raises UnreadableError, OSError."""
    directory = _find(file, size)
    if directory is None or directory.size > _MOST_DIRECTORY_BYTES or directory.told > directory.start:
        raise UnreadableError(_UNREADABLE)
    if directory.told != directory.start and _at(file, directory.told, 4) == _LISTED:
        raise UnreadableError(_UNREADABLE)  # readers differ about which of two lists counts
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MOST_PARTS or any(not 0 <= member.header_offset < size for member in members):
                raise UnreadableError(_UNREADABLE)
            for member in members:
                with archive.open(member) as opened:
                    start = opened.read(PEEK_BYTES)
                budget.spend(unpacked_bytes=len(start))
                yield Part(member.filename, io.BytesIO(start), len(start), cut=len(start) < member.file_size)
    except _ERRORS as error:
        raise UnreadableError(_UNREADABLE) from error


def cut_zip_parts(data: bytes, budget: Budget) -> Iterator[Part]:
    """Go through the members in the start of an archive, whose end is not here. Raises UnreadableError."""
    for found in re.finditer(re.escape(_MEMBER), data):
        if found.start() + _LOCAL.size > len(data):
            return
        _, flags, method, packed, name_bytes, extra_bytes = _LOCAL.unpack_from(data, found.start())
        name = found.start() + _LOCAL.size
        start = name + name_bytes + extra_bytes
        end = len(data) if flags & _SIZE_FOLLOWS else min(start + packed, len(data))
        if method in _RARE_METHODS:
            raise UnreadableError(_UNREADABLE)
        member = _start_of(data[start:end], method)
        budget.spend(unpacked_bytes=len(member))
        whole = not flags & _SIZE_FOLLOWS and start + packed <= len(data) and len(member) < PEEK_BYTES
        named = data[name : name + name_bytes].decode("utf-8", "replace")
        yield Part(named, io.BytesIO(member), len(member), cut=not whole)


def _start_of(data: bytes, method: int) -> bytes:
    if method != zipfile.ZIP_DEFLATED:
        return data
    try:
        return zlib.decompressobj(-15).decompress(data, PEEK_BYTES)
    except zlib.error:
        return b""


def _find(file: BinaryIO, size: int) -> _Directory | None:
    """Find the last end of an archive that the end of the file has room for."""
    tail = _at(file, max(0, size - _LONGEST_COMMENT - _END_BYTES), size)
    found = tail.rfind(_END, 0, len(tail) - _END_BYTES + len(_END))
    if len(tail) < _END_BYTES or found < 0:
        return None
    length, told = struct.unpack_from("<II", tail, found + 12)
    at = size - len(tail) + found
    if long := _find_long(file, at):
        return long
    return _Directory(at - length, told, length)


def _find_long(file: BinaryIO, end: int) -> _Directory | None:
    """Find what a locator in front of the end stands for, as zipfile does it: right in front of the locator."""
    at = end - _LOCATOR_BYTES - _LONG_END_BYTES
    found = _at(file, at, _LONG_END_BYTES + _LOCATOR_BYTES)
    if len(found) < _LONG_END_BYTES + _LOCATOR_BYTES or not found[_LONG_END_BYTES:].startswith(_LOCATOR):
        return None
    (elsewhere,) = struct.unpack_from("<Q", found, _LONG_END_BYTES + 8)
    if elsewhere != at and _at(file, elsewhere, 4) == _LONG_END:
        raise UnreadableError(_UNREADABLE)
    if not found.startswith(_LONG_END):
        return None
    length, told = struct.unpack_from("<QQ", found, 40)
    return _Directory(at - length, told, length)


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    if not 0 <= offset < file.seek(0, io.SEEK_END):
        return b""
    file.seek(offset)
    return file.read(count)
