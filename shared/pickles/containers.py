"""Where pickles hide: in a file itself, in archives (torch, tar), in arrays of objects (numpy), compressed."""

import bz2
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

from shared.pickles.opcodes import is_pickle

_HEAD_BYTES = 512
_PEEK_BYTES = 2**20
_DEEPEST = 3
_MOST_MEMBERS = 20_000
_MOST_DIRECTORY_BYTES = 32 * 2**20
_NAMES = (".pkl", ".pickle")
# As the type of an array or a field, in a header without its quotes; an escape or a comment may hide one.
_OBJECTS = re.compile(rb"(?<![A-Za-z0-9_])[rRuU]?\d*(?:O\d*|object_?)(?![A-Za-z0-9_])|[\\#]")
_QUOTES = re.compile(rb"""['"\s]""")  # pieces of a text that stand beside one another are one
_NPY = b"\x93NUMPY"
_TAR_BLOCK = 512
_LZMA_BYTES = 64 * 2**20


def why_pickle(file: BinaryIO, size: int, *, cut: bool = False, depth: int = 0) -> str:
    """Return why a file of `size` bytes counts as a pickle, in words that follow its name; empty where it does not.

    `cut` is whether only its start is here. Archives that cannot be looked through count as one. Raises OSError.
    """
    if depth > _DEEPEST:
        return ""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(file, size, cut=cut, depth=depth)
    if head.startswith(_NPY):
        return _in_npy(file)
    if unpack := _decompressor(head):
        return _in_compressed(file, unpack, depth)
    if _is_tar(head):
        return _in_tar(file, size, cut=cut, depth=depth)
    return "is a pickle" if is_pickle(file, size, cut=cut) else ""


def _in_zip(file: BinaryIO, size: int, *, cut: bool, depth: int) -> str:
    unreadable = "" if cut else "is a zip archive that cannot be looked through"
    if _directory_bytes(file, size) > _MOST_DIRECTORY_BYTES:
        return unreadable
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                return unreadable
            for member in members:
                if member.filename.lower().endswith(_NAMES):
                    return f"holds the pickle {member.filename!r}"
                if why := _in_member(archive, member, depth):
                    return f"holds {member.filename!r}, which {why}"
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError):
        return unreadable
    return ""


def _in_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, depth: int) -> str:
    with archive.open(member) as opened:
        start = opened.read(_PEEK_BYTES)
    cut = len(start) < member.file_size
    return why_pickle(io.BytesIO(start), len(start), cut=cut, depth=depth + 1)


def _directory_bytes(file: BinaryIO, size: int) -> int:
    """Return how long an archive's list of members is, which is read at one time; 0 where there is none."""
    tail = min(size, 65_535 + 22)
    file.seek(size - tail)
    end = file.read(tail)
    at = end.rfind(b"PK\x05\x06")
    return int.from_bytes(end[at + 12 : at + 16], "little") if at >= 0 else 0


def _in_npy(file: BinaryIO) -> str:
    file.seek(len(_NPY))
    major = file.read(2)[:1]
    length = int.from_bytes(file.read(2 if major == b"\x01" else 4), "little")
    if length > _PEEK_BYTES:
        return "is an array whose type cannot be looked through"
    header = _QUOTES.sub(b"", file.read(length))
    return "is an array of pickled objects" if _OBJECTS.search(header) else ""


def _in_compressed(file: BinaryIO, unpack: Callable[[bytes], bytes], depth: int) -> str:
    """Look at the start of what was compressed."""
    file.seek(0)
    try:
        start = unpack(file.read(_PEEK_BYTES))
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError):
        return ""
    why = why_pickle(io.BytesIO(start), len(start), cut=True, depth=depth + 1)
    return f"{why}, compressed" if why else ""


def _decompressor(head: bytes) -> Callable[[bytes], bytes] | None:
    """Return what gives the first bytes of what a file has compressed, None where it is not compressed."""
    if head.startswith(b"\x1f\x8b") or (head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0):
        return lambda data: zlib.decompressobj(47).decompress(data, _PEEK_BYTES)
    if head.startswith(b"BZh"):
        return lambda data: bz2.BZ2Decompressor().decompress(data, _PEEK_BYTES)
    if head.startswith((b"\xfd7zXZ\x00", b"]\x00\x00")):
        return lambda data: lzma.LZMADecompressor(memlimit=_LZMA_BYTES).decompress(data, _PEEK_BYTES)
    return None


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _in_tar(file: BinaryIO, size: int, *, cut: bool, depth: int) -> str:
    """Walk from header to header: a library's reader would take long names and sparse maps into memory."""
    offset = 0
    for _ in range(_MOST_MEMBERS):
        file.seek(offset)
        header = file.read(_TAR_BLOCK)
        if header in (b"", bytes(_TAR_BLOCK)):
            return ""
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            break
        if member.size < 0:
            break
        offset += _TAR_BLOCK
        if member.isreg() and (why := _in_part(file, offset, min(member.size, size - offset), cut=cut, depth=depth)):
            return f"holds {member.name!r}, which {why}"
        offset += -(-member.size // _TAR_BLOCK) * _TAR_BLOCK
    return "" if cut else "is a tar archive that cannot be looked through"


def _in_part(file: BinaryIO, offset: int, size: int, *, cut: bool, depth: int) -> str:
    part = io.BufferedReader(_Part(file, offset, max(size, 0)))
    return why_pickle(part, max(size, 0), cut=cut, depth=depth + 1)


class _Part(io.RawIOBase):
    """Some bytes of a file as a file."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        super().__init__()
        self._file, self._offset, self._size, self._at = file, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # all that a BufferedReader gives
        self._file.seek(self._offset + self._at)
        found = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
