"""Tar archives, walked from header to header: a library's reader would take long names and sparse maps into memory."""

import re
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from shared.pickles.parts import MOST_PARTS, Budget, Part, UnreadableError, window

_BLOCK = 512
_MOST_EXTENDED_BYTES = 2**20
_RECORD = re.compile(rb"(\d{1,9}) ([^=]+)=")
_SIZE = re.compile(rb"\d{1,19}")
_UNREADABLE = "is a tar archive that cannot be looked through"
_SPARSE = "is a tar archive with sparse files, which cannot be looked through"
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_BEFORE_ANOTHER = (*_EXTENDED, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def starts_as_tar(head: bytes) -> bool:
    """Return whether a file begins with the header of a member."""
    return _header(head[:_BLOCK]) is not None


def tar_parts(file: BinaryIO, size: int, budget: Budget, *, cut: bool) -> Iterator[Part]:
    """Go through the members, as far as they are here. Raises UnreadableError, OSError."""
    offset, larger = 0, None
    for _ in range(MOST_PARTS):
        budget.spend()
        file.seek(offset)
        block = file.read(_BLOCK)
        if block in (b"", bytes(_BLOCK)):
            return
        member = _header(block)
        if member is None or member.size < 0:
            break
        offset += _BLOCK
        if member.type in _EXTENDED:
            larger = _extended_size(file, member, larger)
        elif member.type not in _BEFORE_ANOTHER:
            member.size, larger = (member.size if larger is None else larger), None
        if _has_content(member):
            here = max(0, min(member.size, size - offset))
            yield Part(member.name, window(file, offset, here), here, cut=cut and here < member.size)
        if _has_bytes(member):
            offset += -(-member.size // _BLOCK) * _BLOCK
    if not cut:
        raise UnreadableError(_UNREADABLE)


def _header(block: bytes) -> tarfile.TarInfo | None:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None


def _extended_size(file: BinaryIO, header: tarfile.TarInfo, before: int | None) -> int | None:
    """Return the size of the next member, where it did not fit its own header."""
    if header.size > _MOST_EXTENDED_BYTES:
        raise UnreadableError(_UNREADABLE)
    records, offset = file.read(header.size), 0
    while offset < len(records):
        record = _RECORD.match(records, offset)
        if record is None or int(record[1]) <= record.end() - offset:
            raise UnreadableError(_UNREADABLE)
        value, offset = records[record.end() : offset + int(record[1]) - 1], offset + int(record[1])
        if record[2].startswith(b"GNU.sparse."):
            raise UnreadableError(_SPARSE)
        if record[2] == b"size":
            if header.type == tarfile.XGLTYPE or before is not None or not _SIZE.fullmatch(value):
                raise UnreadableError(_UNREADABLE)
            before = int(value)
    return before


def _has_content(member: tarfile.TarInfo) -> bool:
    """Return whether it is a file; readers take what they do not know for one."""
    if member.type == tarfile.GNUTYPE_SPARSE:
        raise UnreadableError(_SPARSE)
    return member.isreg() or member.type not in (*tarfile.SUPPORTED_TYPES, tarfile.SOLARIS_XHDTYPE)


def _has_bytes(member: tarfile.TarInfo) -> bool:
    """Return whether bytes follow its header: those of links and folders have a size at times, but none follow."""
    return _has_content(member) or member.type in _BEFORE_ANOTHER
