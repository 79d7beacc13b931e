"""The steps for one file, in whichever thread: open, fetch a segment, verify, hand over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent.store.partials import Partial
from agent.store.store import Store
from agent.store.verify import Check
from agent.transfer.hashing import Hashing
from agent.transfer.plan import SMALL_BYTES
from agent.transfer.receive import BytePath, Stopped, receive, receive_front
from agent.transfer.retry_budget import SharedRetryBudget
from agent.transfer.segmented_file import Segment, SegmentedFile
from shared.byte_ranges import ByteRange
from shared.errors import DigestMismatch, LarderError, SourceChanged
from shared.manifest import File, Manifest
from shared.sources.retry import RetryPolicy, Timing


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

    Attributes:
        path: The path of the bytes, with source and stop event.
        manifest: The manifest being downloaded.
        store: The store that receives the files.
        policy: How failed attempts are retried.
        timing: Clock and jitter.
        brought: Paths of the files that this source delivered at least in part.
        make_check: Starts the hash of a file; without SHA-256, the blob is named by its content key.
        cached: Whether all bytes go through the page cache. Small files' bytes always do: many are open at once.
    """

    path: BytePath
    manifest: Manifest
    store: Store
    policy: RetryPolicy
    timing: Timing
    brought: set[str]
    make_check: Callable[[File], Check]
    cached: bool

    @contextmanager
    def opened(self, file: File, before_wait: Callable[[], None] = lambda: None) -> Iterator[FileDownload]:
        """Lock the file and yield it; `before_wait` is called if another download holds it.

        Raises InsufficientStorage, StoreFailure, Stopped.
        """
        cached, stop = self.cached or file.size <= SMALL_BYTES, self.path.stop
        with self.store.partial(self.manifest, file, stop, cached=cached, before_wait=before_wait) as partial:
            if partial is None:
                raise Stopped
            held = partial.held.size_bytes
            work = FileDownload(
                SegmentedFile(file, partial, self.make_check), SharedRetryBudget(self.policy, self.timing)
            )
            if blob := self.store.find_blob(self.manifest, file):  # another download was faster
                self.path.find(file.size)
                self.path.arrived(file.size - held)
                work.blob = blob
            else:
                self.path.find(held)
            yield work

    def attempt(self, work: FileDownload, segment: Segment, buffer: memoryview) -> None:
        """Fetch as much of a segment as arrives; after a retryable failure, wait. Raises LarderError, Stopped."""
        failure: LarderError | None = None
        began_at = segment.position
        try:
            receive(self.path, work.segmented, segment, buffer)
            self.brought.add(work.segmented.file.path)
            work.budget.succeed()
        except LarderError as error:
            failure = error
        finally:
            work.segmented.give_back(segment)
        if failure:
            self._bear(work, failure, segment.position - began_at)

    def attempt_front(self, work: FileDownload, buffer: memoryview) -> bool:
        """Fetch a file in one go that is smaller than the buffer and of which nothing is here.

        Returns whether it is complete and verified; what arrived is kept. Raises the same errors as `attempt` and
        `follow`.
        """
        size, failure = receive_front(self.path, work.segmented.file, buffer)
        try:
            work.segmented.put_front(buffer[:size])
        except LarderError as error:
            failure = failure or error
        else:
            self.path.count(size)
        match failure:
            case None:
                self.brought.add(work.segmented.file.path)
                return self.follow(work, buffer)
            case Stopped():
                raise failure
            case _:
                self._bear(work, failure, size)
                return False

    def follow(self, work: FileDownload, buffer: memoryview) -> bool:
        """Hash what the receivers do not hash themselves until the file is complete.

        Returns:
            True, with `blob` set, once the file is complete and verified; False if it was discarded and must be
            fetched again.

        Raises:
            DigestMismatch: The bytes were wrong for the second time.
            Stopped: `stop` was set.
            StoreFailure: The file could not be read.
        """
        hashing = work.segmented.hashing
        if not self._hash(work, hashing, buffer):
            return False
        check = hashing.check
        try:
            check.verify()
        except DigestMismatch as error:
            self._start_over(work, error)
            return False
        if not work.segmented.finish(hashing):
            return False
        self.path.progress.traffic.verify(work.segmented.file.size, check.took_s)
        work.blob = check.sha256 or work.segmented.partial.key
        return True

    def _bear(self, work: FileDownload, failure: LarderError, brought_bytes: int = 0) -> None:
        """Prepare the next attempt and wait, or raise if there is none. `brought_bytes` arrived before the failure."""
        match failure:
            case SourceChanged():
                self._discard(work, give_up=True)
                raise failure
            case DigestMismatch():
                self._start_over(work, failure)
            case _:
                self._wait(work, failure, brought_bytes)

    def _start_over(self, work: FileDownload, error: DigestMismatch) -> None:
        progress, again = self.path.progress, work.mismatches == 0
        work.mismatches += 1
        self._discard(work, give_up=not again)
        progress.traffic.mismatch()
        if not again:
            raise error
        progress.traffic.retry(error)
        progress.trouble = error

    def _discard(self, work: FileDownload, *, give_up: bool) -> None:
        size = work.segmented.discard(give_up=give_up)
        self.path.find(-size)
        self.path.arrived(-size)

    def _hash(self, work: FileDownload, hashing: Hashing, buffer: memoryview) -> bool:
        """Return True once the file is hashed, False if it was started over. Raises Stopped, StoreFailure."""
        segmented = work.segmented
        while span := segmented.unhashed(hashing, self.path.stop):
            if not span.size_bytes:
                return True
            try:
                cut_short = not self._hash_span(segmented.partial, hashing, span, buffer)
            finally:
                segmented.leave(hashing)
            if cut_short and hashing is segmented.hashing:
                words = f"{segmented.partial.path} was cut short; it is fetched again"
                self._start_over(work, DigestMismatch(words))
        if self.path.stop.is_set():
            raise Stopped
        return False

    def _hash_span(self, partial: Partial, hashing: Hashing, span: ByteRange, buffer: memoryview) -> bool:
        """Hash these bytes from the page cache; return False if they are no longer in the file. Raises Stopped."""
        while hashing.done < span.end:
            if self.path.stop.is_set():
                raise Stopped
            part = buffer[: partial.read_into(buffer[: span.end - hashing.done], hashing.done)]
            if not part:
                return False
            hashing.feed(part)
        return True

    def _wait(self, work: FileDownload, error: LarderError, brought_bytes: int) -> None:
        progress = self.path.progress
        progress.traffic.fail(error)
        pause_s = work.budget.pause(error, work.segmented.missing_bytes, brought_bytes)
        progress.traffic.retry(error)
        progress.trouble = error
        if self.path.stop.wait(pause_s):
            raise Stopped
