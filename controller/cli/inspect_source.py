"""A source as `larder inspect` asks it: with patience, and with an eye on whether anything comes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from shared.errors import LarderError, Unreachable
from shared.manifest import File, Manifest
from shared.sources.port import Body, Source
from shared.sources.retry import RetryPolicy, Timing, act_patiently

T = TypeVar("T")
_POLICY = RetryPolicy(attempts=6, patience_s=40.0, first_s=0.5, longest_s=5.0)
_HOPELESS_S = 45.0
_LOOK_S = 0.2
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
        answer = act_patiently(act, _POLICY, Timing(), self._wait)
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
    outcome: Future[T] = Future()
    threading.Thread(target=_run, args=(act, outcome), name="larder-inspect", daemon=True).start()
    since, answers, came_bytes = time.monotonic(), 0, 0
    while not wait([outcome], _LOOK_S).done:
        now = time.monotonic()
        if source.answers != answers or source.came_bytes - came_bytes >= _LITTLE_BYTES:
            since, answers, came_bytes = now, source.answers, source.came_bytes
        if now - since >= _HOPELESS_S:
            raise source.trouble or Unreachable(
                f"the source did not answer for {_HOPELESS_S:.0f} seconds; try again later"
            )
    return outcome.result()


def _run(act: Callable[[], T], outcome: "Future[T]") -> None:
    try:
        outcome.set_result(act())
    except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
        outcome.set_exception(error)
