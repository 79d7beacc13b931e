"""A source for `larder inspect`: retries failures, and gives up when no progress is made."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from shared.daemon_thread import start_daemon_thread
from shared.errors import LarderError, RateLimited
from shared.manifest import File, Manifest
from shared.sources.for_commands import POLICY, POLL_INTERVAL_S, StallDeadline, no_answer
from shared.sources.port import Body, Source
from shared.sources.retry import Timing, retry

T = TypeVar("T")
_LITTLE_BYTES = 50 * 1024  # a source that sends less than this in the whole period is considered stalled


class RetryingSource:
    """A source that retries where that may help, and counts its responses and their bytes.

    `last_error` is the last failure.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.responses, self.received_bytes = 0, 0
        self.last_error: LarderError | None = None

    def resolve(self) -> Manifest:
        """List the files, with retries."""
        return self._retry(self._source.resolve)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file, with retries."""
        return _Counted(self._retry(lambda: self._source.open(file, offset, length)), self)

    def close(self) -> None:
        """Close idle connections."""
        self._source.close()

    def _retry(self, act: Callable[[], T]) -> T:
        response = retry(act, POLICY, Timing(), self._wait)
        self.responses += 1
        return response

    def _wait(self, pause_s: float, error: LarderError) -> None:
        self.last_error = error
        time.sleep(pause_s)


class _Counted:
    def __init__(self, body: Body, source: RetryingSource) -> None:
        self._body, self._source, self.skips = body, source, body.skips

    def skip(self, max_bytes: int) -> int:
        return self._body.skip(max_bytes)

    def readinto(self, buffer: memoryview) -> int:
        size = self._body.readinto(buffer)
        self._source.received_bytes += size
        return size

    def close(self) -> None:
        self._body.close()


def run_watched(source: RetryingSource, act: Callable[[], T], on_rate_limit: Callable[[RateLimited], None]) -> T:
    """Run `act` on a thread and return its result; raises its failure, or Unreachable if there is no progress.

    `on_rate_limit` is called each time the source requests a delay, which is honoured.
    """
    outcome = start_daemon_thread(act, "larder-inspect")
    deadline, last_error, responses, received_bytes = StallDeadline(time.monotonic()), source.last_error, 0, 0
    while not wait([outcome], POLL_INTERVAL_S).done:
        now = time.monotonic()
        if source.responses != responses or source.received_bytes - received_bytes >= _LITTLE_BYTES:
            deadline.renew(now)
            responses, received_bytes = source.responses, source.received_bytes
        if source.last_error is not last_error:
            last_error = source.last_error
            deadline.note(last_error, now)
            if isinstance(last_error, RateLimited):
                on_rate_limit(last_error)
        if deadline.expired(now):
            raise source.last_error or no_answer()
    return outcome.result()
