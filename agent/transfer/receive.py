"""Receives the bytes of a segment: one request, read into the receiver's buffer and written at their offset."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.segmented_file import Segment, SegmentedFile
from agent.transfer.stall_detector import StallDetector
from shared.errors import DigestMismatch, LarderError, Unreachable
from shared.manifest import File
from shared.sources.port import Body, Source

_FLOWS_BYTES = 64 * 1024  # a body that delivers less at a time may pause for long


class Stopped(Exception):
    """The stop event was set; received bytes are kept."""


@dataclass(frozen=True, slots=True)
class BytePath:
    """What all bytes of a download pass through."""

    source: Source
    bucket: RateLimiter
    progress: Progress
    arrived: Callable[[int], None]
    stop: threading.Event
    clock: Callable[[], float]

    def count(self, size_bytes: int) -> None:
        """Count bytes that were received and written."""
        self.progress.receive(size_bytes)
        self.arrived(size_bytes)

    def pass_over(self, size_bytes: int) -> None:
        """Count bytes that were received but not wanted."""
        self.progress.pass_over(size_bytes)

    def find(self, size_bytes: int) -> None:
        """Count bytes that were already here; negative if they had to be discarded."""
        self.progress.find(size_bytes)


def receive(path: BytePath, segmented: SegmentedFile, segment: Segment, buffer: memoryview) -> None:
    """Receive the rest of a segment; what arrived before a failure is kept.

    Raises:
        LarderError: Whatever the source raises.
        Unreachable: The stream ended early or hardly flowed.
        DigestMismatch: The stream continues after the end of the file.
        InsufficientStorage: The disk is full.
        StoreFailure: The bytes could not be written.
        Stopped: The stop event was set.
    """
    file, left = segmented.file, segment.left
    with path.progress.asking():
        body = path.source.open(file, left.start, None if left.end == file.size else left.size_bytes)
    try:
        if body.skips:
            segmented.divisible = False
        _drain(path, body, segmented, segment, buffer)
    finally:
        body.close()


def receive_front(path: BytePath, file: File, buffer: memoryview) -> tuple[int, LarderError | Stopped | None]:
    """Receive a file smaller than the buffer, without writing or counting anything.

    Returns:
        The number of bytes received, and the error that stopped it early (one that `receive` would raise), if any.
    """
    size = 0
    try:
        with path.progress.asking():
            body = path.source.open(file)
        try:
            flow = _Flow(path, body, file)
            while size < file.size:
                size += flow.take(flow.grain_of(buffer[size : file.size]), size)
            _check_end(body, file, buffer[size:])
        finally:
            body.close()
    except (LarderError, Stopped) as error:
        return size, error
    return size, None


def _drain(path: BytePath, body: Body, segmented: SegmentedFile, segment: Segment, buffer: memoryview) -> None:
    flow = _Flow(path, body, segmented.file)
    while size := flow.pass_over(len(buffer)):
        path.pass_over(size)
    while missing := segment.end - segment.position:
        ahead = segment.position % segmented.partial.grain  # after an odd length, only up to the next page
        room = flow.grain_of(buffer[ahead : segmented.partial.grain if ahead else None][:missing])
        size = flow.take(room, segment.position)
        segmented.write(segment, room[:size], last=size <= min(len(room) - 1, _FLOWS_BYTES))
        path.count(size)
    if segment.end == segmented.file.size:
        _check_end(body, segmented.file, buffer)


class _Flow:
    """Reads a body within the rate limit, as long as it is not too slow."""

    __slots__ = ("_body", "_file", "_path", "_slow", "_stall")

    def __init__(self, path: BytePath, body: Body, file: File) -> None:
        self._path, self._body, self._file, self._stall = path, body, file, StallDetector()
        self._slow: float | None = None

    def grain_of(self, room: memoryview) -> memoryview:
        """Return the part of the buffer to fill at a time."""
        return room[: self._path.bucket.grain(len(room))]

    def take(self, room: memoryview, position: int) -> int:
        """Read the next bytes and return their number.

        Bytes that came too slowly are kept; the failure is raised on the next call.

        Raises:
            Stopped: The stop event was set.
            Unreachable: No bytes came, or the previous ones came too slowly.
        """
        size = self._move(len(room), lambda _: self._body.readinto(room))
        if not size:
            raise Unreachable(
                f"{self._file.path!r} ended after {position} of {self._file.size} bytes; it goes on from there"
            )
        return size

    def pass_over(self, most_bytes: int) -> int:
        """Skip bytes before the wanted part; return how many, 0 once it is reached. Raises the errors of `take`."""
        return self._move(self._path.bucket.grain(most_bytes), self._body.skip) if self._body.skips else 0

    def _move(self, most_bytes: int, move: Callable[[int], int]) -> int:
        path, bucket, size = self._path, self._path.bucket, 0
        if self._slow is not None:
            words = f"{self._file.path!r} came with {self._slow:.0f} bytes a second"
            raise Unreachable(f"{words}; it is asked for again from there")
        if path.stop.is_set() or not bucket.take(most_bytes, path.stop):
            raise Stopped
        asked_s = path.clock()
        try:
            size = move(most_bytes)
        finally:
            bucket.give_back(most_bytes - size)
        if path.stop.is_set():
            raise Stopped
        if size:
            self._slow = self._stall.observe(size, path.clock() - asked_s, bucket.rate)
        return size


def _check_end(body: Body, file: File, buffer: memoryview) -> None:
    with suppress(Unreachable):  # all bytes are here, so a broken connection does no harm
        if body.readinto(buffer[:1]):
            raise DigestMismatch(
                f"{file.path!r} is longer than the {file.size} bytes that the manifest names; the source changed it"
            )
