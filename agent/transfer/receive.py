"""How the bytes of one file come: the one place to change for another way (ranges, several connections a file)."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from agent.store.partials import Partial
from agent.transfer.progress import Progress
from agent.transfer.rate import TokenBucket
from agent.transfer.verify import Check
from shared.errors import DigestMismatch, Unreachable
from shared.manifest import File
from shared.sources.port import Body, Source


class Stopped(Exception):
    """The stop event was set; what was received is kept."""


@dataclass(frozen=True, slots=True)
class BytePath:
    """What every byte of a download passes on its way."""

    source: Source
    bucket: TokenBucket
    progress: Progress
    arrived: Callable[[int], None]
    stop: threading.Event

    def count(self, size_bytes: int) -> None:
        """Note bytes that were received and written."""
        self.progress.receive(size_bytes)
        self.arrived(size_bytes)


def rehash(path: BytePath, partial: Partial, check: Check, buffer: memoryview) -> None:
    """Feed the check with what an earlier attempt left. Raises StoreFailure, Stopped."""
    offset = 0
    while offset < partial.held:
        if path.stop.is_set():
            raise Stopped
        size = partial.read_into(buffer[: partial.held - offset], offset)
        if not size:
            break
        check.feed(buffer[:size])
        path.progress.find(size)
        offset += size


def receive(path: BytePath, file: File, partial: Partial, check: Check, buffer: memoryview) -> None:
    """Append what is missing of a file: one stream from the write front to the end.

    Raises what the source raises, Unreachable where the stream ends early, DigestMismatch where it goes on after the
    end, InsufficientStorage, StoreFailure, Stopped. What came before is in the partial file and in the check.
    """
    if partial.held < file.size:
        body = path.source.open(file, partial.held)
        try:
            _drain(path, body, file, partial, check, buffer)
        finally:
            body.close()


def _drain(path: BytePath, body: Body, file: File, partial: Partial, check: Check, buffer: memoryview) -> None:
    while missing := file.size - partial.held:
        size = _read(path, body, buffer[: min(missing, path.bucket.grain(len(buffer)))])
        if not size:
            raise Unreachable(f"{file.path!r} ended after {partial.held} of {file.size} bytes; it goes on from there")
        partial.write(buffer[:size])
        check.feed(buffer[:size])
        path.count(size)
    with suppress(Unreachable):  # all bytes are here; a connection that breaks now breaks nothing
        if body.readinto(buffer[:1]):
            raise DigestMismatch(
                f"{file.path!r} is longer than the {file.size} bytes that the manifest names; the source changed it"
            )


def _read(path: BytePath, body: Body, room: memoryview) -> int:
    if path.stop.is_set() or not path.bucket.take(len(room), path.stop):
        raise Stopped
    size = body.readinto(room)
    path.bucket.give_back(len(room) - size)
    if path.stop.is_set():
        raise Stopped
    return size
