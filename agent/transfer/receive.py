"""Receives the bytes of a segment: one request, read into the receiver's buffer and written at their offset."""

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.segmented_file import Segment, SegmentedFile
from agent.transfer.stall_detector import StallDetector
from shared.errors import DigestMismatch, LarderError, Unreachable
from shared.manifest import File
from shared.sources.port import Body, Source

_FLOWS_BYTES = 64 * 1024  # a body that delivers less per read may pause for a long time


class Stopped(Exception):
    """The stop event was set; received bytes are kept."""


@dataclass(frozen=True, slots=True)
class DownloadContext:
    """The objects through which all bytes of a download pass.

    `count_arrived` reports to the store's reservation how many bytes are on disk.
    """

    source: Source
    rate_limiter: RateLimiter
    progress: Progress
    count_arrived: Callable[[int], None]
    stop: threading.Event
    clock: Callable[[], float]

    def count(self, size_bytes: int) -> None:
        """Count bytes that were received and written."""
        self.progress.count_received(size_bytes)
        self.count_arrived(size_bytes)


def receive(context: DownloadContext, segmented: SegmentedFile, segment: Segment, buffer: memoryview) -> None:
    """Receive the rest of a segment; bytes that arrived before a failure are kept.

    Raises:
        LarderError: Whatever the source raises.
        Unreachable: The stream ended early or was too slow.
        DigestMismatch: The stream continues after the end of the file.
        InsufficientStorage: The disk is full.
        StoreFailure: The bytes could not be written.
        Stopped: The stop event was set.
    """
    file, left = segmented.file, segment.left
    with context.progress.requesting():
        body = context.source.open(file, left.start, None if left.end == file.size else left.size_bytes)
    with closing(body):
        if body.skips:
            segmented.divisible = False
        _drain(context, body, segmented, segment, buffer)


def receive_front(context: DownloadContext, file: File, buffer: memoryview) -> tuple[int, LarderError | Stopped | None]:
    """Receive a file smaller than the buffer, without writing or counting anything.

    Returns:
        The number of bytes received, and the error that stopped it early (one that `receive` would raise), if any.
    """
    size = 0
    try:
        with context.progress.requesting():
            body = context.source.open(file)
        with closing(body):
            reader = _BodyReader(context, body, file)
            while size < file.size:
                size += reader.read(reader.chunk_of(buffer[size : file.size]), size)
            _check_end(body, file, buffer[size:])
    except (LarderError, Stopped) as error:
        return size, error
    return size, None


def receive_in_order(
    context: DownloadContext, file: File, start: int, write: Callable[[memoryview], None], buffer: memoryview
) -> None:
    """Receive a file from `start` to its end; `write` gets each chunk, in order, before the next one is read.

    Raises the errors of `receive` and of `write`.
    """
    with context.progress.requesting():
        body = context.source.open(file, start)
    with closing(body):
        reader, position = _BodyReader(context, body, file), start
        while size := reader.skip(len(buffer)):
            context.progress.count_skipped(size)
        while position < file.size:
            chunk = reader.chunk_of(buffer[: file.size - position])
            size = reader.read(chunk, position)
            write(chunk[:size])
            position += size
            context.count(size)
        _check_end(body, file, buffer)


def _drain(
    context: DownloadContext, body: Body, segmented: SegmentedFile, segment: Segment, buffer: memoryview
) -> None:
    """Receive the segment in chunks, each written before the next is read.

    With direct writes, `grain` is a page, and a chunk lies in the buffer as in its page of the file. Example with pages
    of 4,096 bytes, where a read returned 5,000 bytes: the next chunk belongs at 5,000, which is 904 bytes into a page.
    It goes to `buffer[904:4096]`, at most up to the end of that page, so that the one after it begins on a page again.
    """
    reader, grain = _BodyReader(context, body, segmented.file), segmented.partial.grain
    while size := reader.skip(len(buffer)):
        context.progress.count_skipped(size)
    while missing := segment.end - segment.position:
        into_page = segment.position % grain
        chunk = reader.chunk_of(buffer[into_page : grain if into_page else None][:missing])
        size = reader.read(chunk, segment.position)
        segmented.write(segment, chunk[:size], last=size <= min(len(chunk) - 1, _FLOWS_BYTES))
        context.count(size)
    if segment.end == segmented.file.size:
        _check_end(body, segmented.file, buffer)


class _BodyReader:
    """Reads a body within the rate limit; fails if the body is too slow."""

    __slots__ = ("_body", "_context", "_file", "_slow_rate", "_stall")

    def __init__(self, context: DownloadContext, body: Body, file: File) -> None:
        self._context, self._body, self._file, self._stall = context, body, file, StallDetector()
        self._slow_rate: float | None = None

    def chunk_of(self, buffer: memoryview) -> memoryview:
        """Return the part of the buffer to fill per read."""
        return buffer[: self._context.rate_limiter.chunk_bytes(len(buffer))]

    def read(self, chunk: memoryview, position: int) -> int:
        """Read the next bytes and return their number.

        Bytes that came too slowly are kept; the failure is raised on the next call.

        Raises:
            Stopped: The stop event was set.
            Unreachable: No bytes came, or the previous ones came too slowly.
        """
        size = self._move(len(chunk), lambda _: self._body.readinto(chunk))
        if not size:
            raise Unreachable(
                f"{self._file.path!r} ended after {position} of {self._file.size} bytes; the rest is requested again"
            )
        return size

    def skip(self, max_bytes: int) -> int:
        """Skip bytes before the wanted part; return how many, 0 once it is reached. Raises the errors of `read`."""
        if not self._body.skips:
            return 0
        return self._move(self._context.rate_limiter.chunk_bytes(max_bytes), self._body.skip)

    def _move(self, max_bytes: int, move: Callable[[int], int]) -> int:
        context, rate_limiter, size = self._context, self._context.rate_limiter, 0
        if self._slow_rate is not None:
            raise Unreachable(
                f"{self._file.path!r} arrived at only {self._slow_rate:.0f} bytes per second; the rest is requested "
                "again"
            )
        if context.stop.is_set() or not rate_limiter.take(max_bytes, context.stop):
            raise Stopped
        began_s = context.clock()
        try:
            size = move(max_bytes)
        finally:
            rate_limiter.give_back(max_bytes - size)
        if context.stop.is_set():
            raise Stopped
        if size:
            self._slow_rate = self._stall.observe(size, context.clock() - began_s, rate_limiter.rate)
        return size


def _check_end(body: Body, file: File, buffer: memoryview) -> None:
    with suppress(Unreachable):  # all bytes are here, so a broken connection does not matter
        if body.readinto(buffer[:1]):
            raise DigestMismatch(
                f"{file.path!r} is longer than the {file.size} bytes in the manifest; the source changed the file"
            )
