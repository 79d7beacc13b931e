"""A source as `larder inspect` asks it: with patience, and with an eye on whether anything comes."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from shared.errors import LarderError
from shared.exits import begin
from shared.manifest import File, Manifest
from shared.sources.at_hand import HOPELESS_S, LOOK_S, POLICY, no_answer
from shared.sources.port import Body, Source
from shared.sources.retry import Timing, act_patiently

T = TypeVar("T")
_LITTLE_BYTES = 50 * 1024  # a source that brings less in all that time only drips


class PatientSource:
    """A source that is asked again where that may help; it counts its answers and their bytes.

    `trouble` is the last failure.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.answers, self.came_bytes = 0, 0
        self.trouble: LarderError | None = None

    def resolve(self) -> Manifest:
        """List the files, patiently."""
        return self._answer(self._source.resolve)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file, patiently."""
        return _Counted(self._answer(lambda: self._source.open(file, offset, length)), self)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._source.close()

    def _answer(self, act: Callable[[], T]) -> T:
        answer = act_patiently(act, POLICY, Timing(), self._wait)
        self.answers += 1
        return answer

    def _wait(self, pause_s: float, error: LarderError) -> None:
        self.trouble = error
        time.sleep(pause_s)


class _Counted:
    def __init__(self, body: Body, source: PatientSource) -> None:
        self._body, self._source, self.skips = body, source, body.skips

    def readinto(self, buffer: memoryview) -> int:
        size = self._body.readinto(buffer)
        self._source.came_bytes += size
        return size

    def close(self) -> None:
        self._body.close()


def run_watched(source: PatientSource, act: Callable[[], T]) -> T:
    """Return what `act` returns on a thread of its own; raises its failure, or Unreachable where nothing comes."""
    outcome = begin(act, "larder-inspect")
    since, answers, came_bytes = time.monotonic(), 0, 0
    while not wait([outcome], LOOK_S).done:
        now = time.monotonic()
        if source.answers != answers or source.came_bytes - came_bytes >= _LITTLE_BYTES:
            since, answers, came_bytes = now, source.answers, source.came_bytes
        if now - since >= HOPELESS_S:
            raise source.trouble or no_answer()
    return outcome.result()
