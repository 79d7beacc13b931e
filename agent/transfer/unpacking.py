"""A model that is an archive, once that is in the store: its files become blobs, each hashed as it is written."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO

from agent.archive.kinds import Kind
from agent.archive.members import Limits, Member, Oversize
from agent.archive.unpack import Content, list_archive, unpack_archive
from agent.store.disk import translated
from agent.store.identity import members_manifest
from agent.store.partials import Partial
from agent.store.snapshot import CompletedFile, Unpacked
from agent.store.store import Store
from agent.store.unpacked import archive_key
from agent.transfer.crew import Crew
from agent.transfer.plan import SMALL_BYTES
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from agent.transfer.writeback import Writeback
from shared.errors import InsufficientStorage, NeedsAction
from shared.manifest import File, Manifest
from shared.quantity import format_bytes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_READ_BYTES = 64 * 1024  # packed as tightly as it goes it is 64 MiB, after which a stop is seen
_BATCH = 256
_NO_LIMIT = 2**63
_LIKELY_RATIO = 20  # models are hardly packed tighter; what is may be a bomb
_UNCOUNTED: Callable[[int], None] = lambda _: None  # noqa: E731 - with its type


@dataclass(frozen=True, slots=True)
class Unpacking:
    """One archive that is to be unpacked, under a reservation that grows by what its files need."""

    store: Store
    manifest: Manifest
    kind: Kind
    reservation: str
    progress: Progress

    def run(self, sha256: str, stop: threading.Event) -> Unpacked:
        """Return what the archive of this SHA-256 becomes, all of it in the store; what is there is not written again.

        Where the files do not fit beside the archive, it is dropped, so that it is not in the way of others. Raises
        InsufficientStorage, UnsafePath, TooManyFiles, InvalidURI, StoreFailure; Stopped within a second after `stop`
        was set.
        """
        halt, found = threading.Event(), list[Unpacked]()
        crew = Crew(halt)
        crew.start(lambda: found.append(self._run(sha256, halt)))
        crew.wait(stop)
        return found[0]

    def _run(self, sha256: str, stop: threading.Event) -> Unpacked:
        [archive] = self.manifest.files
        with self.store.hold(self.manifest, archive, stop) as held:
            if not held:
                raise Stopped
            if found := self.store.find_unpacked(self.manifest):  # another download was faster
                return found
            members = self._list(sha256, stop)
            try:
                digests = self._write(sha256, [m for m in members if m.of == m.path], stop)
            except NeedsAction:  # what lies about its content is refused as a whole
                self.store.drop_members(self.manifest)
                raise
        files = tuple(CompletedFile(m.path, m.size, digests[m.of]) for m in members)
        return Unpacked(CompletedFile(archive.path, archive.size, sha256, archive.digest, archive.etag), files)

    def _list(self, sha256: str, stop: threading.Event) -> tuple[Member, ...]:
        """Return what is in the archive. A tar.gz is unpacked to its end for that, but not far beyond the room."""
        most_bytes, count = _NO_LIMIT, _UNCOUNTED
        if self.kind is Kind.TAR_GZIP:
            room = self.store.room_to_unpack(self.reservation, self.manifest)
            most_bytes, count = max(room, _LIKELY_RATIO * self.manifest.size_bytes), self.progress.find
            self.progress.total = self._read_bytes
        try:
            with self._opened(sha256, stop, count) as file:
                return list_archive(file, self.kind, Limits(most_bytes))
        except Oversize as error:
            need = error.size_bytes
        raise self._refusal(need)

    def _write(self, sha256: str, members: Sequence[Member], stop: threading.Event) -> dict[str, str]:
        """Return the SHA-256 by path of files that have bytes of their own, all of them in the store."""
        into = members_manifest(archive_key(self.manifest), [File(m.path, m.size) for m in members])
        digests = {f.path: known for f in into.files if (known := self.store.find_blob(into, f))}
        missing = [m for m in members if m.path not in digests]
        self._make_room(into, [f for f in into.files if f.path not in digests])
        with self._opened(sha256, stop) as file, ExitStack() as closing:
            batch: list[tuple[Partial, str]] = []
            for content in unpack_archive(file, self.kind, missing):
                with ExitStack() as one:
                    partial = one.enter_context(self._begun(into, content.member, stop))
                    self._copy(content, partial, stop)
                    digests[content.member.path] = content.sha256
                    if content.member.size > SMALL_BYTES:
                        self.store.put_blob(partial, content.sha256)
                    else:
                        self.store.seal(partial)
                        batch.append((partial, content.sha256))
                        closing.push(one.pop_all())
                if len(batch) == _BATCH:
                    self.store.put_blobs(batch)
                    batch.clear()
                    closing.pop_all().close()
            self.store.put_blobs(batch)
        return digests

    @property
    def _read_bytes(self) -> int:
        """How much there is to do before the files are written: to fetch, and to look through where all is unpacked."""
        return self.manifest.size_bytes * (2 if self.kind is Kind.TAR_GZIP else 1)

    def _make_room(self, into: Manifest, missing: Sequence[File]) -> None:
        """Have room for the files that are not there yet, or drop the archive and raise InsufficientStorage."""
        all_bytes, missing_bytes = into.size_bytes, sum(f.size for f in missing)
        overhead = self.store.unpacked_overhead_bytes(into, missing)
        self.progress.total = self._read_bytes + all_bytes
        self.progress.find(all_bytes - missing_bytes)
        try:
            self.store.renew(self.reservation, missing_bytes + overhead)
        except InsufficientStorage:
            raise self._refusal(all_bytes + overhead) from None

    def _refusal(self, need: int) -> InsufficientStorage:
        """Drop the archive, and return why with the numbers of all that it takes."""
        [archive] = self.manifest.files
        self.store.forgo(self.manifest, need)
        why = InsufficientStorage("room was made meanwhile; it is tried again")
        try:
            self.store.renew(self.reservation, self.store.missing_bytes(self.manifest))
        except InsufficientStorage as error:
            why = error
        return InsufficientStorage(
            f"{archive.path!r} ({format_bytes(archive.size)}) is unpacked into {format_bytes(need)} or more, and is "
            f"kept until that is done: {why}",
            why.shortage_bytes,
        )

    def _copy(self, content: Content, partial: Partial, stop: threading.Event) -> None:
        offset, writeback = 0, Writeback(partial.descriptor)
        for piece in content:
            if stop.is_set():
                raise Stopped
            partial.write(memoryview(piece), offset)
            offset += len(piece)
            self.store.arrived(self.reservation, len(piece))
            self.progress.find(len(piece))
            writeback.reach(offset)

    @contextmanager
    def _begun(self, into: Manifest, member: Member, stop: threading.Event) -> Iterator[Partial]:
        """Yield the file that a member is written to; what does not become a blob goes: it would begin anew."""
        with self.store.partial(into, File(member.path, member.size), stop) as partial:
            if partial is None:
                raise Stopped
            try:
                yield partial
            except BaseException:
                with suppress(OSError):
                    partial.path.unlink(missing_ok=True)
                raise

    @contextmanager
    def _opened(
        self, sha256: str, stop: threading.Event, count: Callable[[int], None] = _UNCOUNTED
    ) -> Iterator[BinaryIO]:
        path = self.store.blob_path(sha256)
        with translated(f"opening {path}"):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with BufferedReader(_Packed(descriptor, stop, count), _READ_BYTES) as reader:
            yield reader


class _Packed(RawIOBase):
    """The bytes of an archive, as long as nobody stops it; `count` is told of each piece."""

    def __init__(self, descriptor: int, stop: threading.Event, count: Callable[[int], None]) -> None:
        self._descriptor, self._stop, self._count = descriptor, stop, count

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if self._stop.is_set():
            raise Stopped
        size = os.readv(self._descriptor, [buffer])
        self._count(size)
        return size

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, position, whence)

    def tell(self) -> int:
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
