"""Finds pickles, and the archives and compressed data that may hold one, in files whose names say otherwise."""

import io
import lzma
import re
import struct
import tarfile
import zlib
from typing import BinaryIO

from shared.safe_files.pickle_tracer import may_load_as_pickle

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 128 * 1024  # of a zip: the end record and the longest comment; some readers look 4 KiB further
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ZIP_END, _ZIP_LISTED, _ZIP_LOCATOR = b"PK\x05\x06", b"PK\x01\x02", b"PK\x06\x07"
_LOCATOR_BYTES = 20
_HDF5 = b"\x89HDF\r\n\x1a\n"
_LEAST_USER_BLOCK_BYTES = 512  # before the HDF5 signature; each further candidate is twice as long
_GZIP = b"\x1f\x8b\x08"  # with any flags: readers differ in which ones they check
_MAX_WINDOW_BYTES = 2**20
_LEAST_BYTES = 8  # too short for a pickle that calls anything, while numbers can pass for compressed data
# bzip2, xz, lzma, zstd, lz4, the skippable frame of the last two, and joblib's own format
_COMPRESSED = re.compile(
    rb"BZh|\xfd7zXZ\0|\]\0\0|\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|\x02\x21\x4c\x18|[\x50-\x5f]\x2a\x4d\x18|ZF0x"
)


def why_disguised(file: BinaryIO, size: int, head: bytes, tail: bytes) -> str:
    """Return what a file's bytes show it to be, whatever its name is, or an empty string. Raises OSError."""
    if may_load_as_pickle(file, size):
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
    """Return whether a zip end record points at a member list, with offsets from the start or from the end."""
    for found in re.finditer(re.escape(_ZIP_END), tail):
        at = size - len(tail) + found.start()
        length, offset = struct.unpack("<II", tail[found.start() + 12 :][:8].ljust(8, b"\0"))
        places = {offset: _ZIP_LISTED, at - length: _ZIP_LISTED, at - _LOCATOR_BYTES: _ZIP_LOCATOR}
        if any(_has(file, size, place, mark) for place, mark in places.items()):
            return True
    return False


def _holds_hdf5(file: BinaryIO, size: int) -> bool:
    """Return whether an HDF5 signature is at an offset where readers look: 0, 512, 1024, 2048 and so on."""
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
    """Return whether zlib accepts the start of the file."""
    if not head.startswith(b"x") or len(head) < _LEAST_BYTES:
        return False
    try:
        zlib.decompressobj().decompress(head, _LEAST_BYTES)
    except zlib.error:
        return False
    return True


def _is_lzma(head: bytes) -> bool:
    """Return whether the legacy LZMA format, which has no magic bytes, decodes any bytes from the start.

    A run of zeros, as tensors may start with, decodes as an empty stream whose header says so, and does not count. A
    stream that is empty although its header does not say so counts.
    """
    decompressor = lzma.LZMADecompressor(memlimit=_MAX_WINDOW_BYTES)
    try:
        found = decompressor.decompress(head, _LEAST_BYTES)
    except lzma.LZMAError as error:
        return "limit" in str(error)
    return bool(found) or (decompressor.eof and any(head[5:13]))
