"""Unpacks a model's archives from the store: their files become blobs, hashed as they are written."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from agent.archive.formats import format_of
from agent.store.download_plan import DownloadPlan
from agent.store.list_size import ListSize, list_size
from agent.store.snapshot import ArchiveContents
from agent.store.store import Store
from agent.transfer.archive_listing import ArchivesDoNotFit, ListedArchive, check_names, list_archives, list_paths
from agent.transfer.extraction import Extraction
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from agent.transfer.stored_archive import StoredArchive
from agent.transfer.worker_pool import WorkerPool
from shared.errors import InsufficientStorage, NeedsAction, StoreFailure
from shared.manifest import File
from shared.quantity import format_bytes

_LIKELY_RATIO = 20  # models are hardly ever compressed more than this; a higher ratio may be a zip bomb


@dataclass(frozen=True, slots=True)
class Unpacking:
    """Unpacks the archives of one model, under a reservation that grows by the size of their files.

        lock the archives ──▶ list members ──▶ check names ──▶ reserve ──▶ write files ──▶ their contents
                                   │                              │             │
                        more bytes than could fit            do not fit    an archive is not what it listed
                                   └──▶ drop the archives ◀───────┘             └──▶ drop the files, keep the archives

    `accept_files` is called with the size of the list of all files, and raises if that is too much. An archive counts
    as unpacked once a snapshot has its files; then only the names are checked.
    """

    store: Store
    plan: DownloadPlan
    reservation: str
    progress: Progress
    accept_files: Callable[[ListSize], None] = lambda _: None

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
        found = self.store.snapshots.find_unpacked(self.plan)
        if all(file.path in found for file in self.plan.archives):
            if found:
                self._check_list(found)
            return tuple(found.values())
        halt, done = threading.Event(), list[tuple[ArchiveContents, ...]]()
        pool = WorkerPool(halt)
        pool.start(lambda: done.append(self._unpack(blobs, halt)))
        pool.wait(stop)
        return done[0]

    def _unpack(self, blobs: Mapping[str, str], stop: threading.Event) -> tuple[ArchiveContents, ...]:
        with self._locked(stop):
            found = self.store.snapshots.find_unpacked(self.plan)  # another download may have been faster
            stored = [_stored(file, blobs) for file in self.plan.archives if file.path not in found]
            try:
                listed = self._list(stored, found, stop)
                self._check_list(found, listed)
                self._reserve(listed)
            except ArchivesDoNotFit as error:
                raise self._drop(stored, error.needs) from None
            extraction = Extraction(self.store, self.reservation, self.progress, stop)
            try:
                for one in listed:
                    extraction.write_missing(one)
            except NeedsAction:  # an archive with a wrong listing is refused as a whole
                self.store.unfinished.drop_members(self.plan)
                raise
        return (*found.values(), *(one.unpacked() for one in listed))

    @contextmanager
    def _locked(self, stop: threading.Event) -> Iterator[None]:
        """Lock the archives, each content once, in the same order as all other downloads."""
        with ExitStack() as locks:
            for key in sorted(set(self.plan.archive_keys.values())):
                if not locks.enter_context(self.store.incoming.lock(key, stop)):
                    raise Stopped
            yield

    def _list(
        self, stored: Sequence[StoredArchive], found: Mapping[str, ArchiveContents], stop: threading.Event
    ) -> list[ListedArchive]:
        """List the archives; decompress at most the available bytes, or `_LIKELY_RATIO` times their size if more."""
        decompressed = [one for one in stored if one.is_decompressed_to_list]
        self.progress.total = self.plan.manifest.size_bytes + sum(one.file.size for one in decompressed)
        max_bytes = None
        if decompressed:
            available_bytes = self.store.space.available_to_unpack(self.reservation, self.plan)
            max_bytes = max(available_bytes, _LIKELY_RATIO * sum(one.file.size for one in stored))
        count = self.progress.count_present
        return list_archives(self.store, self.plan, stored, found, max_bytes=max_bytes, stop=stop, count=count)

    def _check_list(self, found: Mapping[str, ArchiveContents], listed: Sequence[ListedArchive] = ()) -> None:
        """Check the names of all files and the size of their list. Raises UnsafePath, TooManyFiles, or as told."""
        paths = list_paths(self.plan, found, listed)
        check_names(paths)
        files = self.plan.manifest.files
        all_paths = (path for names in paths.values() for path in names)
        self.accept_files(list_size(all_paths, (text for f in files for text in (f.digest, f.etag))))

    def _reserve(self, listed: Sequence[ListedArchive]) -> None:
        """Reserve space for the missing files. Raises ArchivesDoNotFit."""
        all_bytes = sum(one.contents.manifest.size_bytes for one in listed)
        missing_bytes = sum(file.size for one in listed for file in one.missing)
        overheads = [self.store.space.unpacked_overhead_bytes(one.contents.manifest, one.missing) for one in listed]
        self.progress.total += all_bytes
        self.progress.count_present(all_bytes - missing_bytes)
        try:
            self.store.space.renew(self.reservation, missing_bytes + sum(overheads))
        except InsufficientStorage:
            pairs = zip(listed, overheads, strict=True)
            needs = {one.archive.file.path: one.contents.manifest.size_bytes + overhead for one, overhead in pairs}
            raise ArchivesDoNotFit(needs) from None

    def _drop(self, archives: Sequence[StoredArchive], needs: Mapping[str, int]) -> InsufficientStorage:
        """Drop the archives and return the error, with the sizes of the archives and their files."""
        self.store.unfinished.drop_oversized_archives(self.plan, needs)
        why = InsufficientStorage("other files were removed in the meantime, so unpacking is retried")
        try:
            self.store.space.renew(self.reservation, self.store.space.missing_bytes(self.plan))
        except InsufficientStorage as error:
            why = error
        first, *more = archives
        packed = format_bytes(sum(one.file.size for one in archives))
        what = f"{first.file.path!r}{f' and {len(more)} more archives' if more else ''} ({packed})"
        return InsufficientStorage(
            f"{what} {'unpack' if more else 'unpacks'} to {format_bytes(sum(needs.values()))} or more, and "
            f"{'they stay' if more else 'it stays'} on the disk until that is done: {why}",
            why.shortage_bytes,
        )


def _stored(file: File, blobs: Mapping[str, str]) -> StoredArchive:
    if file.path not in blobs:
        raise StoreFailure(f"the unpacked files of {file.path!r} were removed meanwhile; the archive is fetched again")
    return StoredArchive(file, format_of(file), blobs[file.path])
