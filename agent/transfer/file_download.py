"""The steps for one file, on any thread: open, fetch a segment, verify, hand over."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.store.download_plan import DownloadPlan
from agent.store.partials import Partial
from agent.store.store import Store
from agent.store.verify import FileHasher
from agent.transfer.hashing import Hashing
from agent.transfer.receive import DownloadContext, Stopped, receive, receive_front
from agent.transfer.retry_budget import SharedRetryBudget
from agent.transfer.segmented_file import Segment, SegmentedFile
from shared.byte_ranges import ByteRange
from shared.errors import DigestMismatch, LarderError, SourceChanged
from shared.manifest import File
from shared.sources.retry import RetryPolicy, Timing

SMALL_BYTES = 4 * 2**20


def split_by_size(files: Iterable[File]) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """Return the large files and the small ones, the largest first."""
    ordered = sorted(files, key=lambda f: (-f.size, f.path))
    large = tuple(f for f in ordered if f.size > SMALL_BYTES)
    return large, tuple(ordered[len(large) :])


@dataclass(slots=True)
class FileDownload:
    """A file being downloaded; `blob` is the name of its blob once its bytes are complete and verified.

    `mismatches` counts how often its bytes did not match the digest from the source.
    """

    segmented: SegmentedFile
    budget: SharedRetryBudget
    blob: str = ""
    mismatches: int = 0


@dataclass(frozen=True, slots=True)
class FileDownloader:
    """One download's files, source, store and counters, shared by all its threads.

    A file ends as a verified blob or with an error. On the way, failures lead to these steps:

        the source changed the file        ──▶ discard its bytes and raise
        bytes do not match, first time     ──▶ discard its bytes and fetch them again
        bytes do not match, second time    ──▶ discard its bytes and raise
        anything else, the budget allows   ──▶ keep its bytes, wait and fetch the rest
        anything else                      ──▶ keep its bytes and raise

    Attributes:
        context: Shared objects of the download, including source and stop event.
        plan: The files to download.
        store: The store that receives the files.
        policy: How failed attempts are retried.
        timing: Clock and jitter.
        delivered: Paths of the files that this source delivered at least in part.
        make_hasher: Starts the hash of a file; without SHA-256, the blob is named by its content key.
        cached: Whether all bytes go through the page cache. Those of small files always do, because many are open.
    """

    context: DownloadContext
    plan: DownloadPlan
    store: Store
    policy: RetryPolicy
    timing: Timing
    delivered: set[str]
    make_hasher: Callable[[File], FileHasher]
    cached: bool

    @contextmanager
    def opened(self, file: File, before_wait: Callable[[], None] = lambda: None) -> Iterator[FileDownload]:
        """Lock the file and yield it; `before_wait` is called if another download holds it.

        Raises InsufficientStorage, StoreFailure, Stopped.
        """
        cached, stop = self.cached or file.size <= SMALL_BYTES, self.context.stop
        key = self.plan.keys[file.path]
        with self.store.incoming.open(key, file, stop, cached=cached, before_wait=before_wait) as partial:
            if partial is None:
                raise Stopped
            held_bytes = partial.held.size_bytes
            segmented = SegmentedFile(file, partial, self.make_hasher)
            download = FileDownload(segmented, SharedRetryBudget(self.policy, self.timing))
            if blob := self.store.blobs.find(key, file.size):  # another download has finished it
                self.context.progress.count_present(file.size)
                self.context.count_arrived(file.size - held_bytes)
                download.blob = blob
            else:
                self.context.progress.count_present(held_bytes)
            yield download

    def fetch_segment(self, download: FileDownload, segment: Segment, buffer: memoryview) -> None:
        """Fetch as much of a segment as arrives; after a retryable failure, wait. Raises LarderError, Stopped."""
        start = segment.position
        try:
            try:
                receive(self.context, download.segmented, segment, buffer)
            finally:
                download.segmented.give_back(segment)
        except LarderError as error:
            self._handle(error, download, segment.position - start)
        else:
            self.delivered.add(download.segmented.file.path)
            download.budget.succeed()

    def fetch_whole(self, download: FileDownload, buffer: memoryview) -> bool:
        """Fetch a file in one go if it is smaller than the buffer and none of it is here.

        Returns whether it is complete and verified; what arrived is kept. Raises the same errors as `fetch_segment` and
        `complete`.
        """
        size, failure = receive_front(self.context, download.segmented.file, buffer)
        try:
            download.segmented.put_front(buffer[:size])
        except LarderError as error:
            failure = failure or error
        else:
            self.context.count(size)
        match failure:
            case None:
                self.delivered.add(download.segmented.file.path)
                return self.complete(download, buffer)
            case Stopped():
                raise failure
            case _:
                self._handle(failure, download, size)
                return False

    def complete(self, download: FileDownload, buffer: memoryview) -> bool:
        """Hash the bytes that no receiver hashes, wait until the file is complete, and verify it.

        Returns:
            True, with `blob` set, once the file is complete and verified; False if it was discarded and must be
            fetched again.

        Raises:
            DigestMismatch: The bytes were wrong for the second time.
            Stopped: `stop` was set.
            StoreFailure: The file could not be read.
        """
        segmented, hashing = download.segmented, download.segmented.hashing
        if not self._hash(download, hashing, buffer):
            return False
        try:
            hashing.hasher.verify()
        except DigestMismatch as error:
            self._start_over(download, error)
            return False
        if not segmented.finish(hashing):
            return False
        self.context.progress.traffic.count_verified(segmented.file.size, hashing.hasher.took_s)
        download.blob = hashing.hasher.sha256 or segmented.partial.key
        return True

    def _handle(self, error: LarderError, download: FileDownload, received_bytes: int) -> None:
        """Prepare the next attempt and wait for it, or raise; `received_bytes` arrived before the failure."""
        match error:
            case SourceChanged():
                self._discard(download, give_up=True)
                raise error
            case DigestMismatch():
                self._start_over(download, error)
            case _:
                self._wait(download, error, received_bytes)

    def _start_over(self, download: FileDownload, error: DigestMismatch) -> None:
        progress, is_first = self.context.progress, download.mismatches == 0
        download.mismatches += 1
        self._discard(download, give_up=not is_first)
        progress.traffic.count_mismatch()
        if not is_first:
            raise error
        progress.traffic.count_retry(error)
        progress.failure = error

    def _discard(self, download: FileDownload, *, give_up: bool) -> None:
        size = download.segmented.discard(give_up=give_up)
        self.context.progress.count_present(-size)
        self.context.count_arrived(-size)

    def _hash(self, download: FileDownload, hashing: Hashing, buffer: memoryview) -> bool:
        """Return True once the file is hashed, False if it was started over. Raises Stopped, StoreFailure."""
        segmented = download.segmented
        while unhashed := segmented.take_unhashed(hashing, self.context.stop):
            if not unhashed.size_bytes:
                return True
            try:
                is_truncated = not self._hash_range(segmented.partial, hashing, unhashed, buffer)
            finally:
                segmented.release_hash(hashing)
            if is_truncated and hashing is segmented.hashing:
                self._start_over(
                    download, DigestMismatch(f"{segmented.partial.path} was truncated; it is fetched again")
                )
        if self.context.stop.is_set():
            raise Stopped
        return False

    def _hash_range(self, partial: Partial, hashing: Hashing, unhashed: ByteRange, buffer: memoryview) -> bool:
        """Hash these bytes from the page cache; return False if they are no longer in the file. Raises Stopped."""
        while hashing.done < unhashed.end:
            if self.context.stop.is_set():
                raise Stopped
            part = buffer[: partial.read_into(buffer[: unhashed.end - hashing.done], hashing.done)]
            if not part:
                return False
            hashing.feed(part)
        return True

    def _wait(self, download: FileDownload, error: LarderError, received_bytes: int) -> None:
        progress = self.context.progress
        progress.traffic.count_if_rate_limited(error)
        pause_s = download.budget.pause(error, download.segmented.missing_bytes, received_bytes)
        progress.traffic.count_retry(error)
        progress.failure = error
        if self.context.stop.wait(pause_s):
            raise Stopped
