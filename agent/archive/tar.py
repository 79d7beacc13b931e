"""Members of tar archives, plain or by gzip, one at a time."""

import gzip
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from agent.archive.guarded import GuardedReader
from agent.archive.kinds import Kind
from agent.archive.members import Entry, Type
from shared.errors import UnsafePath

_PIECE_BYTES = 1024 * 1024
_BLOCK_BYTES = 512


class TarArchive:
    """A tar in `file`. Iterating may raise tarfile.TarError, OSError, EOFError, zlib.error, ValueError."""

    def __init__(self, file: BinaryIO, kind: Kind) -> None:
        self._file, self._kind = file, kind

    def entries(self) -> Iterator[Entry]:
        """Yield the members in their order."""
        for info, _ in self._infos():
            yield _entry_of(info)

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield (name, pieces of content) of each file; take the pieces before going on."""
        for info, tar in self._infos():
            if info.isreg():
                yield info.name, _pieces(tar, info)

    def _infos(self) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
        self._file.seek(0)
        raw = cast("BinaryIO", gzip.GzipFile(fileobj=self._file)) if self._kind is Kind.TAR_GZIP else self._file
        reader = GuardedReader(raw, _PIECE_BYTES)
        with tarfile.open(fileobj=cast("BinaryIO", reader), mode="r:") as tar:
            while (info := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # documented; the library would keep them all
                yield info, tar
            _check_end(reader, tar.offset)


def _check_end(reader: GuardedReader, position: int) -> None:
    """Raise ReadError where the library took a damaged header for the end."""
    reader.seek(position)
    if any(reader.read(_BLOCK_BYTES)):
        raise tarfile.ReadError("a header in its middle is damaged")


def _entry_of(info: tarfile.TarInfo) -> Entry:
    match info:
        case _ if info.issparse():
            raise UnsafePath(f"the archive has {info.name!r} with holes in it (sparse); make it without --sparse")
        case _ if info.isreg():
            kind = Type.FILE
        case _ if info.isdir():
            kind = Type.DIRECTORY
        case _ if info.issym():
            kind = Type.SYMBOLIC_LINK
        case _ if info.islnk():
            kind = Type.HARD_LINK
        case _:
            kind = Type.OTHER
    return Entry(info.name, kind, info.size if kind is Type.FILE else 0, info.mode, info.linkname)


def _pieces(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    content = tar.extractfile(info)
    while content and (piece := content.read(_PIECE_BYTES)):
        yield piece
