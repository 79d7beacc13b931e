"""Members of zip archives."""

import stat
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from agent.archive.guarded import GuardedReader
from agent.archive.members import Entry, Type
from shared.errors import UnsafePath

_TABLE_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_LONGEST_TARGET_BYTES = 4096
_MADE_BY_UNIX = 3
_ENCRYPTED = 0x1


class ZipArchive:
    """A zip in `file`. Iterating may raise zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def entries(self) -> Iterator[Entry]:
        """Yield the members in their order."""
        with self._opened() as archive:
            for info in archive.infolist():
                yield _entry_of(archive, info)

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield (name, pieces of content) of each file; take the pieces before going on."""
        with self._opened() as archive:
            for info in archive.infolist():
                if _entry_of(archive, info).type is Type.FILE:
                    yield _name_of(info), _pieces(archive, info)

    def _opened(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(cast("BinaryIO", GuardedReader(self._file, _TABLE_BYTES)))


def _name_of(info: zipfile.ZipInfo) -> str:
    return info.orig_filename  # as it is written: the library cuts names at a NUL


def _entry_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    name, mode = _name_of(info), info.external_attr >> 16 if info.create_system == _MADE_BY_UNIX else 0
    if info.flag_bits & _ENCRYPTED:
        raise UnsafePath(f"the archive has {name!r} encrypted; make it without a password")
    match stat.S_IFMT(mode):
        case 0:
            kind = Type.DIRECTORY if info.is_dir() else Type.FILE
        case stat.S_IFREG:
            kind = Type.FILE
        case stat.S_IFDIR:
            kind = Type.DIRECTORY
        case stat.S_IFLNK:
            kind = Type.SYMBOLIC_LINK
        case _:
            kind = Type.OTHER
    target = _target_of(archive, info) if kind is Type.SYMBOLIC_LINK else ""
    return Entry(name, kind, info.file_size if kind is Type.FILE else 0, stat.S_IMODE(mode), target)


def _target_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    if info.file_size > _LONGEST_TARGET_BYTES:
        raise UnsafePath(f"the archive has the link {_name_of(info)!r} with a target that is too long; leave it out")
    with archive.open(info) as content:
        return content.read(_LONGEST_TARGET_BYTES).decode(errors="surrogateescape")


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as content:
        while piece := content.read(_PIECE_BYTES):
            yield piece
