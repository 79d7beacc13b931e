"""How long one file is tried."""

import threading

from shared.errors import LarderError, RateLimited, Unreachable
from shared.sources.retry import WORTH_BYTES, RetryBudget, RetryPolicy, Timing


class SharedRetryBudget:
    """The RetryBudget of one file, which its receivers share: they wait together.

    An attempt that brought little is progress, and yet the next pause is longer. Thread-safe.
    """

    def __init__(self, policy: RetryPolicy, timing: Timing) -> None:
        self._policy, self._timing = policy, timing
        self._budget = RetryBudget(policy, timing.uniform, timing.clock())
        self._missing_bytes, self._until = -1, 0.0
        self._poor = 0  # failures in a row that brought little
        self._lock = threading.Lock()

    def pause(self, error: LarderError, missing_bytes: int, brought_bytes: int = 0) -> float:
        """Return how long to wait after this failure; raises it where trying on makes no sense.

        `missing_bytes` of the file tells whether there was progress since the last failure; `brought_bytes` is what
        the attempt itself brought.
        """
        with self._lock:
            now = self._timing.clock()
            if missing_bytes != self._missing_bytes:
                self._missing_bytes = missing_bytes
                self._budget.renew(now)
            if brought_bytes >= WORTH_BYTES:
                self._poor = 0
            elif error.retryable and now + _asked_s(error) < self._until:  # another receiver met the same trouble
                return self._until - now + self._head_start_s(error)
            else:
                self._poor += 1
            pause_s = self._budget.pause_s(error, now, poor=self._poor, brought_bytes=brought_bytes)
            if pause_s is None:
                raise error
            self._until = max(self._until, now + pause_s)
            return pause_s

    def succeed(self) -> None:
        """Note that an attempt brought all that it was for: one failure weighs less, for others may go on failing."""
        with self._lock:
            self._poor = max(0, self._poor - 1)

    def _head_start_s(self, error: LarderError) -> float:
        """Return how long one receiver tries alone: where few tries tell, those of all would be many."""
        tries = error.tries if isinstance(error, Unreachable) else 0
        return self._policy.first_s * 2**tries if tries else 0.0


def _asked_s(error: LarderError) -> float:
    """Return how long the server asks to be left alone."""
    return error.after_s if isinstance(error, RateLimited) else 0.0
