"""A source for `larder inspect`: retries failures, and gives up when no progress is made."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from shared.daemon_thread import start_daemon_thread
from shared.errors import LarderError, RateLimited
from shared.manifest import File, Manifest
from shared.sources.command_line import LOOK_S, POLICY, StallDeadline, no_answer
from shared.sources.port import Body, Source
from shared.sources.retry import Timing, retry

T = TypeVar("T")
_LITTLE_BYTES = 50 * 1024  # a source that sends less than this in the whole period is considered stalled


class RetryingSource:
    """A source that retries where that may help, and counts its responses and their bytes.

    `trouble` is the last failure.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.answers, self.came_bytes = 0, 0
        self.trouble: LarderError | None = None

    def resolve(self) -> Manifest:
        """List the files, with retries."""
        return self._answer(self._source.resolve)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file, with retries."""
        return _Counted(self._answer(lambda: self._source.open(file, offset, length)), self)

    def close(self) -> None:
        """Close idle connections."""
        self._source.close()

    def _answer(self, act: Callable[[], T]) -> T:
        answer = retry(act, POLICY, Timing(), self._wait)
        self.answers += 1
        return answer

    def _wait(self, pause_s: float, error: LarderError) -> None:
        self.trouble = error
        time.sleep(pause_s)


class _Counted:
    def __init__(self, body: Body, source: RetryingSource) -> None:
        self._body, self._source, self.skips = body, source, body.skips

    def skip(self, most_bytes: int) -> int:
        return self._body.skip(most_bytes)

    def readinto(self, buffer: memoryview) -> int:
        size = self._body.readinto(buffer)
        self._source.came_bytes += size
        return size

    def close(self) -> None:
        self._body.close()


def run_watched(source: RetryingSource, act: Callable[[], T], asked: Callable[[RateLimited], None]) -> T:
    """Run `act` on a thread and return its result; raises its failure, or Unreachable if there is no progress.

    `asked` is called each time the source asks for a delay, which it gets.
    """
    outcome = start_daemon_thread(act, "larder-inspect")
    hope, trouble, answers, came_bytes = StallDeadline(time.monotonic()), source.trouble, 0, 0
    while not wait([outcome], LOOK_S).done:
        now = time.monotonic()
        if source.answers != answers or source.came_bytes - came_bytes >= _LITTLE_BYTES:
            hope.renew(now)
            answers, came_bytes = source.answers, source.came_bytes
        if source.trouble is not trouble:
            trouble = source.trouble
            hope.note(trouble, now)
            if isinstance(trouble, RateLimited):
                asked(trouble)
        if hope.is_lost(now):
            raise source.trouble or no_answer()
    return outcome.result()
