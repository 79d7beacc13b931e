"""What else a file may be to programs that go by its bytes: an archive or something compressed that holds a pickle."""

import io
import lzma
import re
import struct
import tarfile
import zlib
from typing import BinaryIO

from shared.safe_files.opcodes import is_pickle

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 22 + 65_535  # of a zip: its end, and the longest comment
_ZIP_END, _ZIP_LISTED, _ZIP_LOCATOR = b"PK\x05\x06", b"PK\x01\x02", b"PK\x06\x07"
_LOCATOR_BYTES = 20
_MOST_WINDOW_BYTES = 2**20
_LEAST_BYTES = 8  # fewer are no pickle that calls something, and numbers may look like something compressed for so long
# bzip2, xz, lzma, zstd, lz4, a frame that both skip, and joblib's own form
_COMPRESSED = re.compile(
    rb"BZh|\xfd7zXZ\0|\]\0\0|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|\x02\x21\x4c\x18|[\x50-\x5f]\x2a\x4d\x18|ZF0x"
)


def why_disguised(file: BinaryIO, size: int, head: bytes, tail: bytes) -> str:
    """Return what a file is to somebody who does not go by its name, or "". Raises OSError."""
    if is_pickle(file, size):
        return "is a pickle"
    if _starts_as_tar(head):
        return "is a tar archive"
    if _ends_as_zip(file, size, tail):
        return "is a zip archive"
    if _COMPRESSED.match(head) or _inflates(head) or _is_lzma(head):
        return "is compressed"
    return ""


def _starts_as_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _ends_as_zip(file: BinaryIO, size: int, tail: bytes) -> bool:
    """Return whether an end of a zip has its list of members where it says, counted from the start or from the end."""
    for found in re.finditer(re.escape(_ZIP_END), tail):
        at = size - len(tail) + found.start()
        length, told = struct.unpack("<II", tail[found.start() + 12 :][:8].ljust(8, b"\0"))
        places = {told: _ZIP_LISTED, at - length: _ZIP_LISTED, at - _LOCATOR_BYTES: _ZIP_LOCATOR}
        if any(_at(file, place, size) == mark for place, mark in places.items()):
            return True
    return False


def _at(file: BinaryIO, place: int, size: int) -> bytes:
    if not 0 <= place < size:
        return b""
    file.seek(place, io.SEEK_SET)
    return file.read(4)


def _inflates(head: bytes) -> bool:
    """Return whether gzip finds nothing wrong with the start, or zlib with what joblib gives it."""
    if not head.startswith((b"\x1f\x8b", b"x")) or len(head) < _LEAST_BYTES:
        return False
    try:
        zlib.decompressobj(47).decompress(head, _LEAST_BYTES)
    except zlib.error:
        return False
    return True


def _is_lzma(head: bytes) -> bool:
    """Return whether the old form of LZMA, which has no name of its own, gets some bytes out of the start.

    Zeros are an empty one, and tensors may begin with them; one that is empty without saying so counts.
    """
    decompressor = lzma.LZMADecompressor(memlimit=_MOST_WINDOW_BYTES)
    try:
        found = decompressor.decompress(head, _LEAST_BYTES)
    except lzma.LZMAError as error:
        return "limit" in str(error)
    return bool(found) or (decompressor.eof and any(head[5:13]))
