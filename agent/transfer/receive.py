"""How the bytes of a claim come: one request, read straight into the receiver's buffer, written in their place."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from agent.transfer.assembly import Assembly, Claim
from agent.transfer.pace import Pace
from agent.transfer.progress import Progress
from agent.transfer.rate import TokenBucket
from shared.errors import DigestMismatch, Unreachable
from shared.manifest import File
from shared.sources.port import Body, Source

_FLOWS_BYTES = 64 * 1024  # a body that gives less at a time may give nothing for long


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
    clock: Callable[[], float]

    def count(self, size_bytes: int) -> None:
        """Note bytes that were received and written."""
        self.progress.receive(size_bytes)
        self.arrived(size_bytes)

    def find(self, size_bytes: int) -> None:
        """Note bytes that were here already; negative where they had to be discarded."""
        self.progress.find(size_bytes)


def receive(path: BytePath, assembly: Assembly, claim: Claim, buffer: memoryview) -> None:
    """Bring what is left of a claim.

    Raises what the source raises, Unreachable where the stream ends early or hardly flows, DigestMismatch where it goes
    on after the end of the file, InsufficientStorage, StoreFailure, Stopped. What came before is kept.
    """
    file, left = assembly.file, claim.left
    with path.progress.asking():
        body = path.source.open(file, left.start, None if left.end == file.size else left.size_bytes)
    try:
        if body.skips:
            assembly.divisible = False
        _drain(path, body, assembly, claim, buffer)
    finally:
        body.close()


def _drain(path: BytePath, body: Body, assembly: Assembly, claim: Claim, buffer: memoryview) -> None:
    file, pace = assembly.file, Pace()
    while missing := claim.end - claim.position:
        room = buffer[: min(missing, path.bucket.grain(len(buffer)))]
        if path.stop.is_set() or not path.bucket.take(len(room), path.stop):
            raise Stopped
        asked_s = path.clock()
        size = body.readinto(room)
        path.bucket.give_back(len(room) - size)
        if path.stop.is_set():
            raise Stopped
        if not size:
            raise Unreachable(f"{file.path!r} ended after {claim.position} of {file.size} bytes; it goes on from there")
        assembly.write(claim, room[:size], last=size <= min(len(room) - 1, _FLOWS_BYTES))
        path.count(size)
        if slow := pace.observe(size, path.clock() - asked_s, path.bucket.rate):
            raise Unreachable(f"{file.path!r} came with {slow:.0f} bytes a second; it is asked for again from there")
    if claim.end == file.size:
        _check_end(body, file, buffer)


def _check_end(body: Body, file: File, buffer: memoryview) -> None:
    with suppress(Unreachable):  # all bytes are here; a connection that breaks now breaks nothing
        if body.readinto(buffer[:1]):
            raise DigestMismatch(
                f"{file.path!r} is longer than the {file.size} bytes that the manifest names; the source changed it"
            )
