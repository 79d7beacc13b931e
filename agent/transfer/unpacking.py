"""Unpacks a model's archives from the store: their files become blobs, hashed as they are written."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO

from agent.archive.kinds import Kind, kind_of
from agent.archive.members import Member, Oversize, Tally, UnpackLimits, check_together, count_names
from agent.archive.unpack import MemberContent, list_archive, unpack_archive
from agent.linux.writeback import Writeback
from agent.store.disk import translated
from agent.store.download_plan import DownloadPlan
from agent.store.identity import members_manifest
from agent.store.partials import Partial
from agent.store.snapshot import ArchiveContents, CompletedFile
from agent.store.store import Store
from agent.transfer.file_download import SMALL_BYTES
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from agent.transfer.worker_pool import WorkerPool
from shared.errors import InsufficientStorage, NeedsAction, StoreFailure
from shared.manifest import File
from shared.quantity import format_bytes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_READ_BYTES = 64 * 1024  # expands to at most 64 MiB, after which `stop` is checked
_BATCH = 256
_NO_LIMIT = 2**63
_LIKELY_RATIO = 20  # models are hardly packed tighter; anything that is may be a bomb
_UNCOUNTED: Callable[[int], None] = lambda _: None  # noqa: E731 - with its type


@dataclass(frozen=True, slots=True)
class _Archive:
    """An archive to unpack, and the SHA-256 of its bytes."""

    file: File
    kind: Kind
    sha256: str


@dataclass(frozen=True, slots=True)
class _Listed:
    """An archive whose members are listed; `into` has its files with bytes of their own.

    `digests` has the SHA-256 of those already in the store, by path.
    """

    archive: _Archive
    members: tuple[Member, ...]
    into: DownloadPlan
    digests: dict[str, str]

    @property
    def missing(self) -> list[File]:
        """The files not yet in the store."""
        return [file for file in self.into.manifest.files if file.path not in self.digests]

    def unpacked(self) -> ArchiveContents:
        """Return the contents of the archive, whose files are all in the store."""
        files = tuple(CompletedFile(m.path, m.size, self.digests[m.of]) for m in self.members)
        file = self.archive.file
        return ArchiveContents(CompletedFile(file.path, file.size, self.archive.sha256, file.digest, file.etag), files)


@dataclass(frozen=True, slots=True)
class Unpacking:
    """Unpacks the archives of one model, under a reservation that grows by what their files need."""

    store: Store
    plan: DownloadPlan
    reservation: str
    progress: Progress

    def run(self, blobs: Mapping[str, str], stop: threading.Event) -> tuple[ArchiveContents, ...]:
        """Return the contents of the archives, all in the store; existing files are not written again.

        If the files do not fit beside the archives, the archives are dropped to make room for others.

        Args:
            blobs: SHA-256 of the archives by path.
            stop: Ends the work within a second once set.

        Raises:
            InsufficientStorage: The files do not fit.
            UnsafePath: A member is unsafe.
            TooManyFiles: There are too many members.
            InvalidURI: An archive is damaged or has no files.
            StoreFailure: The disk failed.
            Stopped: `stop` was set.
        """
        halt, done = threading.Event(), list[tuple[ArchiveContents, ...]]()
        pool = WorkerPool(halt)
        pool.start(lambda: done.append(self._run(blobs, halt)))
        pool.wait(stop)
        return done[0]

    def _run(self, blobs: Mapping[str, str], stop: threading.Event) -> tuple[ArchiveContents, ...]:
        archives = self.plan.archives
        with self._held(stop):
            found = self.store.snapshots.find_unpacked(self.plan)  # another download may have been faster
            listed = self._list([_archive_of(file, blobs) for file in archives if file.path not in found], found, stop)
            self.check_together(found, listed)
            try:
                self._write(listed, stop)
            except NeedsAction:  # an archive that lies about its content is refused as a whole
                self.store.unfinished.drop_members(self.plan)
                raise
        return (*found.values(), *(one.unpacked() for one in listed))

    @contextmanager
    def _held(self, stop: threading.Event) -> Iterator[None]:
        """Lock the archives, each content once, in the same order as all other downloads."""
        with ExitStack() as holding:
            for key in sorted(set(self.plan.archive_keys.values())):
                if not holding.enter_context(self.store.incoming.lock(key, stop)):
                    raise Stopped
            yield

    def _list(
        self, archives: Sequence[_Archive], found: Mapping[str, ArchiveContents], stop: threading.Event
    ) -> list[_Listed]:
        """Return the members of the archives, under one limit with those found; a tar.gz is decompressed for this."""
        listed, needs = list[_Listed](), dict[str, int]()
        limits, tally = UnpackLimits(self._most_bytes(archives)), Tally()
        for before in found.values():
            count_names((file.path for file in before.files), limits, tally)
        self.progress.total = self.plan.manifest.size_bytes + _looked_through_bytes(archives)
        for one in archives:
            bytes_before = tally.bytes
            count = self.progress.find if one.kind is Kind.TAR_GZIP else _UNCOUNTED
            try:
                with _named(one), self._opened(one.sha256, stop, count) as file:
                    members = list_archive(file, one.kind, limits, tally)
            except Oversize as error:
                needs[one.file.path] = error.size_bytes - bytes_before
                break
            needs[one.file.path] = tally.bytes - bytes_before
            own = [File(m.path, m.size) for m in members if m.of == m.path]
            into = DownloadPlan(members_manifest(self.plan.keys[one.file.path], own))
            digests = {f.path: sha256 for f in own if (sha256 := self.store.blobs.find(into.keys[f.path], f.size))}
            listed.append(_Listed(one, members, into, digests))
        if len(listed) < len(archives):
            raise self._refusal(archives, needs)
        return listed

    def _most_bytes(self, archives: Sequence[_Archive]) -> int:
        """Return how many bytes may be decompressed to list archives: not far beyond the available space."""
        if all(one.kind is not Kind.TAR_GZIP for one in archives):
            return _NO_LIMIT
        room = self.store.space.room_to_unpack(self.reservation, self.plan)
        return max(room, _LIKELY_RATIO * sum(one.file.size for one in archives))

    def check_together(self, found: Mapping[str, ArchiveContents], listed: Sequence[_Listed] = ()) -> None:
        """Raise UnsafePath if files of one archive clash with another's, or with the model's other files.

        `found` are archives unpacked earlier. Raises TooManyFiles if there are too many files together.
        """
        archives = self.plan.archive_keys
        places = {"": [f.path for f in self.plan.manifest.files if f.path not in archives]}
        places |= {path: [f.path for f in one.files] for path, one in found.items()}
        places |= {one.archive.file.path: [m.path for m in one.members] for one in listed}
        check_together(places, UnpackLimits(_NO_LIMIT))

    def _write(self, listed: Sequence[_Listed], stop: threading.Event) -> None:
        """Write the files with bytes of their own to the store, and record their SHA-256."""
        self._make_room(listed)
        for one in listed:
            with _named(one.archive):
                self._write_files(one, stop)

    def _write_files(self, listed: _Listed, stop: threading.Event) -> None:
        archive, missing = listed.archive, {file.path for file in listed.missing}
        members = [member for member in listed.members if member.path in missing]
        with self._opened(archive.sha256, stop) as file, ExitStack() as closing:
            batch: list[tuple[Partial, str]] = []
            for content in unpack_archive(file, archive.kind, members):
                with ExitStack() as one:
                    partial = one.enter_context(self._begun(listed.into, content.member, stop))
                    self._copy(content, partial, stop)
                    listed.digests[content.member.path] = content.sha256
                    if content.member.size > SMALL_BYTES:
                        self.store.incoming.put_blob(partial, content.sha256)
                    else:
                        self.store.incoming.seal(partial)
                        batch.append((partial, content.sha256))
                        closing.push(one.pop_all())
                if len(batch) == _BATCH:
                    self.store.incoming.put_blobs(batch)
                    batch.clear()
                    closing.pop_all().close()
            self.store.incoming.put_blobs(batch)

    def _make_room(self, listed: Sequence[_Listed]) -> None:
        """Reserve space for the missing files, or drop the archives and raise InsufficientStorage."""
        all_bytes = sum(one.into.manifest.size_bytes for one in listed)
        missing_bytes = sum(file.size for one in listed for file in one.missing)
        overhead_bytes = self.store.space.unpacked_overhead_bytes
        overheads = {one.archive.file.path: overhead_bytes(one.into.manifest, one.missing) for one in listed}
        self.progress.total += all_bytes
        self.progress.find(all_bytes - missing_bytes)
        try:
            self.store.space.renew(self.reservation, missing_bytes + sum(overheads.values()))
        except InsufficientStorage:
            needs = {p: one.into.manifest.size_bytes + overheads[p] for one in listed if (p := one.archive.file.path)}
            raise self._refusal([one.archive for one in listed], needs) from None

    def _refusal(self, archives: Sequence[_Archive], needs: Mapping[str, int]) -> InsufficientStorage:
        """Drop the archives and return the error, with the sizes of the archives and their files."""
        self.store.unfinished.drop_oversized_archives(self.plan, needs)
        why = InsufficientStorage("room was made meanwhile; it is tried again")
        try:
            self.store.space.renew(self.reservation, self.store.space.missing_bytes(self.plan))
        except InsufficientStorage as error:
            why = error
        first, *more = archives
        packed = format_bytes(sum(one.file.size for one in archives))
        what = f"{first.file.path!r}{f' and {len(more)} more archives' if more else ''} ({packed})"
        return InsufficientStorage(
            f"{what} {'are' if more else 'is'} unpacked into {format_bytes(sum(needs.values()))} or more, and "
            f"{'are' if more else 'is'} kept until that is done: {why}",
            why.shortage_bytes,
        )

    def _copy(self, content: MemberContent, partial: Partial, stop: threading.Event) -> None:
        offset, writeback = 0, Writeback(partial.descriptor)
        for piece in content:
            if stop.is_set():
                raise Stopped
            partial.write(memoryview(piece), offset)
            offset += len(piece)
            self.store.space.arrived(self.reservation, len(piece))
            self.progress.find(len(piece))
            writeback.reach(offset)

    @contextmanager
    def _begun(self, into: DownloadPlan, member: Member, stop: threading.Event) -> Iterator[Partial]:
        """Yield the partial file of a member; on failure it is removed, since extraction would start over."""
        with self.store.incoming.open(into.keys[member.path], File(member.path, member.size), stop) as partial:
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
        path = self.store.blobs.path(sha256)
        with translated(f"opening {path}"):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with BufferedReader(_Packed(descriptor, stop, count), _READ_BYTES) as reader:
            yield reader


def _archive_of(file: File, blobs: Mapping[str, str]) -> _Archive:
    if file.path not in blobs:
        raise StoreFailure(f"what {file.path!r} was unpacked into was removed meanwhile; it is fetched again")
    return _Archive(file, kind_of(file), blobs[file.path])


def _looked_through_bytes(archives: Sequence[_Archive]) -> int:
    """Return how many bytes are read for listing: those of archives that must be decompressed for it."""
    return sum(one.file.size for one in archives if one.kind is Kind.TAR_GZIP)


@contextmanager
def _named(archive: _Archive) -> Iterator[None]:
    """Put the archive's name into refusals, since a model may have several."""
    try:
        yield
    except NeedsAction as error:
        raise type(error)(f"{archive.file.path!r}: {error}") from error


class _Packed(RawIOBase):
    """The bytes of an archive until `stop` is set; `count` is called with the size of each chunk."""

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
