"""Unpacking a whole model: first every member is looked at, then files are written, and hashed as they are."""

import gzip
import hashlib
import lzma
import os
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agent.archive.kinds import Kind
from agent.archive.members import Limits, Member, decide_members, plain_name
from agent.archive.tar import TarArchive
from agent.archive.zip import ZipArchive
from agent.store.disk import store_error, translated
from agent.transfer.receive import Stopped
from shared.errors import InvalidURI, UnsafePath
from shared.manifest import File

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o644

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
    NotImplementedError,  # a way to compress that the library has not
)

Put = Callable[[Member, Iterator[bytes]], None]


def list_archive(file: BinaryIO, kind: Kind, limits: Limits) -> tuple[Member, ...]:
    """Return the files that the archive would become, without writing anything.

    For a tar.gz that means to decompress it once. Raises UnsafePath, TooManyFiles, InsufficientStorage, and InvalidURI
    where it is damaged.
    """
    with _readable(kind):
        return decide_members(_opened(file, kind).entries(), limits)


def unpack_archive(
    file: BinaryIO, kind: Kind, members: Sequence[Member], put: Put, stop: threading.Event
) -> tuple[File, ...]:
    """Hand each file's content to `put` and return all as files with their SHA-256; `members` are those listed.

    `put` takes every piece and writes it; another name of a file (`Member.of`) has no content of its own and is left to
    the caller. Raises as `list_archive`, what `put` raises, and Stopped.
    """
    own = {member.path: member for member in members if member.of == member.path}
    digests: dict[str, str] = {}
    with _readable(kind):
        for name, pieces in _opened(file, kind).contents():
            member = own.get(plain_name(name))
            if member is None or member.path in digests:
                raise UnsafePath(f"the archive has {name!r} now, which it had not when it was listed; it was changed")
            taken = _Taken(pieces, member, stop)
            put(member, iter(taken))
            digests[member.path] = taken.checked()
    if missing := sorted(own.keys() - digests.keys()):
        raise InvalidURI(f"the archive has no {missing[0]!r} any more; it was changed while it was unpacked")
    return tuple(File(m.path, m.size, f"sha256:{digests[m.of]}") for m in members)


def write_below(target: Path) -> Put:
    """Return a `put` that writes new files below an empty directory that is ours. It raises StoreFailure."""

    def put(member: Member, pieces: Iterator[bytes]) -> None:
        path = target / member.path
        with translated(f"writing {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, _FRESH, _MODE)
        with os.fdopen(descriptor, "wb", buffering=0) as out:
            for piece in pieces:
                with translated(f"writing {path}"):
                    left = memoryview(piece)
                    while left:
                        left = left[out.write(left) :]

    return put


@dataclass(slots=True)
class _Taken:
    """The content of one member on its way: hashed, and no more than was declared."""

    pieces: Iterator[bytes]
    member: Member
    stop: threading.Event
    size: int = 0
    sha256: str = ""

    def __iter__(self) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for piece in self.pieces:
            if self.stop.is_set():
                raise Stopped
            self.size += len(piece)
            if self.size > self.member.size:
                break
            digest.update(piece)
            yield piece
        self.sha256 = digest.hexdigest()

    def checked(self) -> str:
        """Return the SHA-256; UnsafePath where the content is not as long as the archive declares."""
        if self.size != self.member.size or not self.sha256:
            raise UnsafePath(
                f"the archive declares {self.member.size} bytes for {self.member.path!r} and has "
                f"{'more' if self.size > self.member.size else 'fewer'}; make it anew"
            )
        return self.sha256


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
