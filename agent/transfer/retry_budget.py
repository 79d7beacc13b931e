"""The retry budget of one file."""

import threading

from shared.errors import LarderError, RateLimited, Unreachable
from shared.sources.retry import MIN_PROGRESS_BYTES, RetryBudget, RetryPolicy, Timing


class SharedRetryBudget:
    """The RetryBudget of one file, shared by its receivers, which wait together.

    An attempt that received only a few bytes counts as progress, but the next pause still grows. Thread-safe.
    """

    def __init__(self, policy: RetryPolicy, timing: Timing) -> None:
        self._policy, self._timing = policy, timing
        self._budget = RetryBudget(policy, timing.uniform, timing.clock())
        self._missing_bytes, self._until = -1, 0.0
        self._poor = 0  # consecutive failures with few bytes
        self._lock = threading.Lock()

    def pause(self, error: LarderError, missing_bytes: int, received_bytes: int = 0) -> float:
        """Return the pause in seconds after this failure; raise the failure if retrying is pointless.

        Args:
            error: The failure.
            missing_bytes: Bytes missing from the file, which show whether there was progress since the last failure.
            received_bytes: Bytes that the attempt itself received.
        """
        with self._lock:
            now = self._timing.clock()
            if missing_bytes != self._missing_bytes:
                self._missing_bytes = missing_bytes
                self._budget.renew(now)
            if received_bytes >= MIN_PROGRESS_BYTES:
                self._poor = 0
            elif error.retryable and now + _asked_s(error) < self._until:  # already reported by another receiver
                return self._until - now + self._head_start_s(error)
            else:
                self._poor += 1
            pause_s = self._budget.pause_s(error, now, failures_since_data=self._poor, received_bytes=received_bytes)
            if pause_s is None:
                raise error
            self._until = max(self._until, now + pause_s)
            return pause_s

    def succeed(self) -> None:
        """Record a complete attempt; it offsets only one failure, because other receivers may still be failing."""
        with self._lock:
            self._poor = max(0, self._poor - 1)

    def _head_start_s(self, error: LarderError) -> float:
        """Return how much longer the other receivers wait, in seconds: retries by all at once would be too many."""
        tries = error.tries if isinstance(error, Unreachable) else 0
        return self._policy.first_s * 2**tries if tries else 0.0


def _asked_s(error: LarderError) -> float:
    """Return how many seconds the server asked us to wait."""
    return error.after_s if isinstance(error, RateLimited) else 0.0
