"""Unpacking a whole model: first every member is looked at, then files come out, and are hashed as they do."""

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

from agent.archive.members import Member, Tally, UnpackLimits, decide_members, plain_name
from agent.archive.tar import TarArchive
from agent.archive.zip import ZipArchive
from agent.store.archive_kinds import Kind
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
    RecursionError,  # headers that announce headers
    NotImplementedError,  # a form that the library has not
)


class MemberContent:
    """One file of an archive: iterate over its bytes once, then ask for their SHA-256."""

    def __init__(self, member: Member, pieces: Iterator[bytes], kind: Kind) -> None:
        self.member, self._pieces, self._kind = member, pieces, kind
        self._digest, self._size, self._ended = hashlib.sha256(), 0, False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content in pieces of a MiB at most, no more than was declared. Raises as `list_archive`."""
        with _readable(self._kind):
            for piece in self._pieces:
                self._size += len(piece)
                if self._size > self.member.size:
                    return
                self._digest.update(piece)
                yield piece
        self._ended = True

    @property
    def sha256(self) -> str:
        """The SHA-256, in hex; UnsafePath where the content is not as long as the archive declares."""
        if self._size != self.member.size or not self._ended:
            raise UnsafePath(
                f"the archive declares {self.member.size} bytes for {self.member.path!r} and has "
                f"{'more' if self._size > self.member.size else 'fewer'}; make it anew"
            )
        return self._digest.hexdigest()


def list_archive(file: BinaryIO, kind: Kind, limits: UnpackLimits, tally: Tally | None = None) -> tuple[Member, ...]:
    """Return the files that the archive would become, without writing anything; `tally` is as for `decide_members`.

    For a tar.gz that means to decompress it once. Raises UnsafePath, TooManyFiles, Oversize, and InvalidURI where it is
    damaged or has no files.
    """
    with _readable(kind):
        members = decide_members(_opened(file, kind).entries(), limits, tally)
    if not members:
        raise InvalidURI(f"the archive has no files; upload a {kind.value} with the model's files in it")
    return members


def unpack_archive(file: BinaryIO, kind: Kind, members: Sequence[Member]) -> Iterator[MemberContent]:
    """Yield the content of each of `members`, which are those listed that are wanted and have bytes of their own.

    Iterate over each before going on. Raises as `list_archive`.
    """
    wanted = {member.path: member for member in members}
    with _readable(kind):
        for name, pieces in _opened(file, kind).contents() if wanted else ():
            if member := wanted.pop(plain_name(name), None):
                yield MemberContent(member, pieces, kind)
            if not wanted:
                break
    if wanted:
        raise InvalidURI(f"the archive has no {min(wanted)!r} any more; it was changed while it was unpacked")


@contextmanager
def _readable(kind: Kind) -> Iterator[None]:
    """Turn what the libraries say of a damaged archive into InvalidURI."""
    try:
        yield
    except _DAMAGE as error:
        detail = str(error) or type(error).__name__
        raise InvalidURI(f"the archive cannot be read as {kind.value} ({detail}); upload it anew") from error
    except OSError as error:
        raise store_error(error, "reading the archive") from error


def _opened(file: BinaryIO, kind: Kind) -> TarArchive | ZipArchive:
    return ZipArchive(file) if kind is Kind.ZIP else TarArchive(file, kind)
