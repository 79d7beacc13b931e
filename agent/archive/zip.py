"""Members of zip archives."""

import stat
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from agent.archive.guarded_reader import GuardedReader
from agent.archive.members import ArchiveEntry, MemberType
from shared.errors import UnsafePath

_TABLE_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_HEADER_BYTES = 30
_LONGEST_TARGET_BYTES = 4096
_MADE_BY_UNIX = 3
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # other methods use as much memory as the archive asks for


class ZipArchive:
    """A zip archive in `file`.

    Iterating may raise zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def entries(self) -> Iterator[ArchiveEntry]:
        """Yield the members in order."""
        with self._opened() as archive:
            _check_overlap(archive)
            for info in archive.infolist():
                yield _entry_of(archive, info)

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield (name, chunks of content) of each file; before continuing, consume all of its chunks or none."""
        with self._opened() as archive:
            for info in archive.infolist():
                if _entry_of(archive, info).type is MemberType.FILE:
                    yield _name_of(info), _pieces(archive, info)

    def _opened(self) -> zipfile.ZipFile:
        reader = GuardedReader(self._file, _TABLE_BYTES)
        archive = zipfile.ZipFile(cast("BinaryIO", reader))
        reader.allow(None)
        return archive


def _name_of(info: zipfile.ZipInfo) -> str:
    return info.orig_filename  # as stored: the library cuts names at a NUL


def _check_overlap(archive: zipfile.ZipFile) -> None:
    """Raise UnsafePath if members share bytes, which lets a small file declare petabytes."""
    end, last = 0, ""
    for info in sorted(archive.infolist(), key=lambda i: i.header_offset):
        if info.header_offset < end:
            raise UnsafePath(f"the archive contains {last!r} and {_name_of(info)!r}, whose bytes overlap; recreate it")
        end, last = info.header_offset + _HEADER_BYTES + info.compress_size, _name_of(info)
    if end > archive.start_dir:
        raise UnsafePath(f"the archive contains {last!r}, which overlaps the archive's table of contents; recreate it")


def _entry_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArchiveEntry:
    name, mode = _name_of(info), info.external_attr >> 16 if info.create_system == _MADE_BY_UNIX else 0
    if info.flag_bits & _ENCRYPTED:
        raise UnsafePath(f"the archive contains {name!r} encrypted; recreate it without a password")
    if info.compress_type not in _METHODS:
        raise UnsafePath(
            f"the archive contains {name!r} compressed with method {info.compress_type}; recreate it with deflate"
        )
    match stat.S_IFMT(mode):
        case 0:
            kind = MemberType.DIRECTORY if info.is_dir() else MemberType.FILE
        case stat.S_IFREG:
            kind = MemberType.FILE
        case stat.S_IFDIR:
            kind = MemberType.DIRECTORY
        case stat.S_IFLNK:
            kind = MemberType.SYMBOLIC_LINK
        case _:
            kind = MemberType.OTHER
    target = _target_of(archive, info) if kind is MemberType.SYMBOLIC_LINK else ""
    return ArchiveEntry(name, kind, info.file_size if kind is MemberType.FILE else 0, stat.S_IMODE(mode), target)


def _target_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    if info.file_size > _LONGEST_TARGET_BYTES:
        raise UnsafePath(
            f"the archive contains the link {_name_of(info)!r} whose target is too long; remove it from the archive"
        )
    with archive.open(info) as content:
        return content.read(_LONGEST_TARGET_BYTES).decode(errors="surrogateescape")


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as content:
        while piece := content.read(_PIECE_BYTES):
            yield piece
