"""Unpacks a whole model: all members are checked first, then files are extracted and hashed on the way."""

import gzip
import hashlib
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from agent.archive.formats import ArchiveFormat
from agent.archive.members import ArchiveTotals, Member, UnpackLimits, decide_members, plain_name
from agent.archive.tar import TarArchive
from agent.archive.zip import ZipArchive
from agent.store.disk import store_error
from shared.errors import InvalidURI, UnsafePath

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    LookupError,
    OverflowError,
    RecursionError,  # a long chain of extended headers
    NotImplementedError,  # a format that the library does not support
)


class MemberContent:
    """One file of an archive: iterate over its bytes once, then read its SHA-256."""

    def __init__(self, member: Member, pieces: Iterator[bytes], archive_format: ArchiveFormat) -> None:
        self.member, self._pieces, self._format = member, pieces, archive_format
        self._digest, self._size, self._ended = hashlib.sha256(), 0, False

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks of at most one MiB, never more than declared. Raises the errors of `list_archive`."""
        with _readable(self._format):
            for piece in self._pieces:
                self._size += len(piece)
                if self._size > self.member.size:
                    return
                self._digest.update(piece)
                yield piece
        self._ended = True

    @property
    def sha256(self) -> str:
        """The SHA-256 in hex; raises UnsafePath if the content is shorter or longer than declared."""
        if self._size != self.member.size or not self._ended:
            raise UnsafePath(
                f"the archive declares {self.member.size} bytes for {self.member.path!r} and has "
                f"{'more' if self._size > self.member.size else 'fewer'}; recreate it"
            )
        return self._digest.hexdigest()


def list_archive(
    file: BinaryIO, archive_format: ArchiveFormat, limits: UnpackLimits, totals: ArchiveTotals | None = None
) -> tuple[Member, ...]:
    """Return the files the archive would become, without writing anything; `totals` as in `decide_members`.

    A tar.gz is decompressed once for this.

    Raises:
        UnsafePath: A member is unsafe.
        TooManyFiles: There are too many members.
        Oversize: There are too many bytes.
        InvalidURI: The archive is damaged or has no files.
    """
    with _readable(archive_format):
        members = decide_members(_opened(file, archive_format).entries(), limits, totals)
    if not members:
        raise InvalidURI(f"the archive contains no files; upload a {archive_format.value} with the model's files in it")
    return members


def unpack_archive(file: BinaryIO, archive_format: ArchiveFormat, members: Sequence[Member]) -> Iterator[MemberContent]:
    """Yield the content of each of `members`, which are some or all of the listed ones, without links.

    Consume each before continuing. Raises the errors of `list_archive`.
    """
    wanted = {member.path: member for member in members}
    with _readable(archive_format):
        for name, pieces in _opened(file, archive_format).contents() if wanted else ():
            if member := wanted.pop(plain_name(name), None):
                yield MemberContent(member, pieces, archive_format)
            if not wanted:
                break
    if wanted:
        raise InvalidURI(f"the archive no longer has {min(wanted)!r}; it changed while it was being unpacked")


@contextmanager
def _readable(archive_format: ArchiveFormat) -> Iterator[None]:
    """Turn the libraries' errors for a damaged archive into InvalidURI."""
    try:
        yield
    except _DAMAGE as error:
        detail = str(error) or type(error).__name__
        raise InvalidURI(f"the archive cannot be read as {archive_format.value} ({detail}); upload it again") from error
    except OSError as error:
        raise store_error(error, "reading the archive") from error


def _opened(file: BinaryIO, archive_format: ArchiveFormat) -> TarArchive | ZipArchive:
    return ZipArchive(file) if archive_format is ArchiveFormat.ZIP else TarArchive(file, archive_format)
