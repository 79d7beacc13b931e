"""How long one file is tried."""

import threading

from shared.errors import LarderError
from shared.sources.retry import RetryPolicy, Timing, pause_before_retry


class Patience:
    """Counts the failures of one file since its last progress; its receivers share it and wait together.

    Thread-safe.
    """

    def __init__(self, policy: RetryPolicy, timing: Timing) -> None:
        self._policy, self._timing = policy, timing
        self._failures, self._missing_bytes, self._until = 0, -1, 0.0
        self._since = timing.clock()
        self._lock = threading.Lock()

    def pause(self, error: LarderError, missing_bytes: int) -> float:
        """Return how long to wait after this failure; raises it where trying on makes no sense.

        `missing_bytes` of the file tells whether there was progress since the last failure.
        """
        with self._lock:
            now = self._timing.clock()
            if missing_bytes != self._missing_bytes:
                self._failures, self._missing_bytes, self._since = 0, missing_bytes, now
            elif now < self._until and error.retryable:  # another receiver met the same trouble
                return self._until - now
            self._failures += 1
            chance = self._timing.random()
            pause_s = pause_before_retry(self._policy, error, self._failures, now - self._since, chance)
            if pause_s is None:
                raise error
            self._until = now + pause_s
            return pause_s
