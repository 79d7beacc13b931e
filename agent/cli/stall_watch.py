"""Detects when waiting for a source has become pointless."""

from agent.transfer.progress import Progress
from agent.transfer.stall_detector import LEAST_RATE
from shared.errors import LarderError
from shared.sources.for_commands import STALL_TIMEOUT_S, StallDeadline, no_answer

_MIN_WAIT_S = 20.0  # a longer wait is for the source, not for the disk
_MIN_BYTES = LEAST_RATE * STALL_TIMEOUT_S  # a source that sends less within the timeout has stalled


class StallWatch:
    """Detects that too little has arrived for too long; pauses that the source requests do not count."""

    def __init__(self, progress: Progress, now: float) -> None:
        self._progress, self._done, self._files, self._total = progress, 0, 0, progress.total
        self._received = 0
        self._deadline = StallDeadline(now)
        self._waiting_since: float | None = None
        self._failure: LarderError | None = None  # the last one since something arrived

    def check(self, now: float) -> LarderError | None:
        """Return the reason to give up, or None to continue. Waiting for the disk does not count."""
        progress = self._progress
        self._failure = progress.failure or self._failure
        files, is_relisted = progress.traffic.verified_files, progress.total != self._total
        arrived_bytes = max(abs(progress.done - self._done), progress.received - self._received)
        if is_relisted or arrived_bytes >= _MIN_BYTES or files != self._files:
            self._deadline.renew(now)
            self._done, self._files, self._total = progress.done, files, progress.total
            self._received = progress.received
            self._failure, self._waiting_since = progress.failure, None
        self._deadline.note(progress.failure, now)
        if not (self._failure or not progress.total or progress.is_requesting):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        if self._waiting_since is None or now - self._waiting_since < _MIN_WAIT_S or not self._deadline.expired(now):
            return None
        return self._failure or no_answer()
