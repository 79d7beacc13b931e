"""When a fetch is beyond hope."""

from agent.transfer.progress import Progress
from agent.transfer.stall_detector import LEAST_RATE
from shared.errors import LarderError
from shared.sources.command_line import HOPELESS_S, StallDeadline, no_answer

_AT_LEAST_S = 20.0  # a longer wait is for the source, not for the disk
_LITTLE_BYTES = LEAST_RATE * HOPELESS_S  # a source that sends less in all that time only trickles


class StallWatch:
    """Detects that so little has arrived for so long that waiting is pointless; a source that asks for time gets it."""

    def __init__(self, progress: Progress, now: float) -> None:
        self._progress, self._seen, self._files, self._total = progress, 0, 0, progress.total
        self._received = 0
        self._hope = StallDeadline(now)
        self._waits_since: float | None = None
        self._trouble: LarderError | None = None  # the last one since something arrived

    def check(self, now: float) -> LarderError | None:
        """Return the reason to give up, or None to continue. Waiting for a source counts, for a disk sync does not."""
        progress = self._progress
        self._trouble = progress.failure or self._trouble
        files, is_listed = progress.traffic.verified_files, progress.total != self._total
        came_bytes = max(abs(progress.done - self._seen), progress.received - self._received)
        if is_listed or came_bytes >= _LITTLE_BYTES or files != self._files:
            self._hope.renew(now)
            self._seen, self._files, self._total = progress.done, files, progress.total
            self._received = progress.received
            self._trouble, self._waits_since = progress.failure, None
        self._hope.note(progress.failure, now)
        if not (self._trouble or not progress.total or progress.is_requesting):
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        if self._waits_since is None or now - self._waits_since < _AT_LEAST_S or not self._hope.is_lost(now):
            return None
        return self._trouble or no_answer()
