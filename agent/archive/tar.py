"""Members of tar archives, plain or gzipped, one at a time."""

import gzip
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from agent.archive.formats import ArchiveFormat
from agent.archive.guarded_reader import GuardedReader
from agent.archive.members import ArchiveEntry, MemberType
from shared.errors import TooManyFiles, UnsafePath

_PIECE_BYTES = 1024 * 1024
_HEADERS_BYTES = 256 * 1024  # per member, including long names
_BLOCK_BYTES = 512
_LONGEST_END_BYTES = 16 * 1024 * 1024


class TarArchive:
    """A tar archive in `file`. Iterating may raise tarfile.TarError, OSError, EOFError, zlib.error, ValueError."""

    def __init__(self, file: BinaryIO, archive_format: ArchiveFormat) -> None:
        self._file, self._format = file, archive_format

    def entries(self) -> Iterator[ArchiveEntry]:
        """Yield the members in order; archives that are truncated or followed by other data are refused."""
        for info, _ in self._infos(to_the_end=True):
            yield _entry_of(info)

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield (name, chunks of content) of each file; before continuing, consume all of its chunks or none."""
        for info, tar in self._infos(to_the_end=False):
            if info.isreg():
                yield info.name, _pieces(tar, info)

    def _infos(self, *, to_the_end: bool) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
        self._file.seek(0)
        is_gzip = self._format is ArchiveFormat.TAR_GZIP
        raw = cast("BinaryIO", gzip.GzipFile(fileobj=self._file)) if is_gzip else self._file
        reader = GuardedReader(raw, _HEADERS_BYTES)
        with tarfile.open(fileobj=cast("BinaryIO", reader), mode="r:") as tar:
            while (info := tar.next()) is not None:
                _check_kept(tar)
                reader.allow(None)
                yield info, tar
                reader.allow(_HEADERS_BYTES)
            if to_the_end:
                reader.allow(None)
                reader.seek(tar.offset)
                _check_end(reader)


def _check_kept(tar: tarfile.TarFile) -> None:
    """Bound the library's memory: its list of members, and the global headers."""
    tar.members.clear()  # type: ignore[attr-defined]  # documented
    if sum(len(name) + len(value) for name, value in tar.pax_headers.items()) > _HEADERS_BYTES:
        raise TooManyFiles("the archive's global headers are too large for memory; recreate it without them")


def _check_end(reader: GuardedReader) -> None:
    """Raise ReadError unless only zeros follow, at least a block of them: the library mistakes damage for the end."""
    size = 0
    while piece := reader.read(_PIECE_BYTES):
        size += len(piece)
        if size > _LONGEST_END_BYTES or piece.count(0) < len(piece):
            raise tarfile.ReadError("a header in its middle is damaged, or data follows its end")
    if size < _BLOCK_BYTES:
        raise tarfile.ReadError("its end-of-archive mark is missing")


def _entry_of(info: tarfile.TarInfo) -> ArchiveEntry:
    match info:
        case _ if info.issparse():
            raise UnsafePath(f"the archive contains {info.name!r} as a sparse file; recreate it without --sparse")
        case _ if info.isreg():
            kind = MemberType.FILE
        case _ if info.isdir():
            kind = MemberType.DIRECTORY
        case _ if info.issym():
            kind = MemberType.SYMBOLIC_LINK
        case _ if info.islnk():
            kind = MemberType.HARD_LINK
        case _:
            kind = MemberType.OTHER
    return ArchiveEntry(info.name, kind, info.size if kind is MemberType.FILE else 0, info.mode, info.linkname)


def _pieces(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    content = tar.extractfile(info)
    while content and (piece := content.read(_PIECE_BYTES)):
        yield piece
