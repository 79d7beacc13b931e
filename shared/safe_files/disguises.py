"""What else a file may be to programs that go by its bytes: a container or something compressed that holds a pickle."""

import io
import lzma
import re
import struct
import tarfile
import zlib
from typing import BinaryIO

from shared.safe_files.opcodes import is_pickle

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 128 * 1024  # of a zip: its end behind the longest comment; some readers look 4 KiB further
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ZIP_END, _ZIP_LISTED, _ZIP_LOCATOR = b"PK\x05\x06", b"PK\x01\x02", b"PK\x06\x07"
_LOCATOR_BYTES = 20
_HDF5 = b"\x89HDF\r\n\x1a\n"
_LEAST_USER_BLOCK_BYTES = 512  # in front of HDF5; the next one is twice as long
_GZIP = b"\x1f\x8b\x08"  # whatever flags follow: readers differ in which of them they mind
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
    if head.startswith(_ZIP_STARTS) or _ends_as_zip(file, size, tail):
        return "is a zip archive"
    if _holds_hdf5(file, size):
        return "is HDF5"
    if head.startswith(_GZIP) or _COMPRESSED.match(head) or _inflates(head) or _is_lzma(head):
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
        if any(_has(file, size, place, mark) for place, mark in places.items()):
            return True
    return False


def _holds_hdf5(file: BinaryIO, size: int) -> bool:
    """Return whether HDF5 begins at one of the places where its readers look: 0, 512, 1024, 2048 and so on."""
    place = 0
    while place < size:
        if _has(file, size, place, _HDF5):
            return True
        place = place * 2 or _LEAST_USER_BLOCK_BYTES
    return False


def _has(file: BinaryIO, size: int, place: int, mark: bytes) -> bool:
    if not 0 <= place < size:
        return False
    file.seek(place, io.SEEK_SET)
    return file.read(len(mark)) == mark


def _inflates(head: bytes) -> bool:
    """Return whether zlib finds nothing wrong with the start."""
    if not head.startswith(b"x") or len(head) < _LEAST_BYTES:
        return False
    try:
        zlib.decompressobj().decompress(head, _LEAST_BYTES)
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
