"""The byte-rate limit of a node: one token bucket shared by all downloads."""

import threading
import time
from collections.abc import Callable

from shared.token_bucket import TokenBucket

_BURST_S = 0.1
_CHUNK_S = 0.05
_LEAST_CHUNK_BYTES = 4096
_LONGEST_WAIT_S = 0.2


def bucket_of(rate: float, now: float) -> TokenBucket | None:
    """Return an empty token bucket for a rate in bytes per second; None for no limit."""
    return TokenBucket(rate, rate * _BURST_S, now) if rate > 0 else None


class RateLimiter:
    """A shared limit in bytes per second; 0 means no limit. Thread-safe, and the rate may change at any time."""

    def __init__(self, rate: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._bucket = clock, bucket_of(rate, clock())
        self._changed = threading.Condition()

    @property
    def rate(self) -> float:
        """The current limit in bytes per second."""
        bucket = self._bucket
        return 0.0 if bucket is None else bucket.rate

    def set_rate(self, rate: float) -> None:
        """Change the limit, also for callers already waiting."""
        with self._changed:
            if self._bucket is not None and rate > 0:
                self._bucket.change(rate, rate * _BURST_S, self._clock())
            else:
                self._bucket = bucket_of(rate, self._clock())
            self._changed.notify_all()

    def chunk_bytes(self, max_bytes: int) -> int:
        """Return how many bytes to request at a time to keep the flow even."""
        rate = self.rate
        return max_bytes if rate <= 0 else min(max_bytes, max(_LEAST_CHUNK_BYTES, int(rate * _CHUNK_S)))

    def take(self, size_bytes: int, stop: threading.Event) -> bool:
        """Wait until the bytes may be transferred; return False if `stop` is set first."""
        if self._bucket is None:
            return True
        with self._changed:
            while wait_s := self._draw(size_bytes):
                if stop.is_set():
                    return False
                self._changed.wait(min(wait_s, _LONGEST_WAIT_S))
            return True

    def give_back(self, size_bytes: int) -> None:
        """Return bytes that were taken but not transferred."""
        if self._bucket is not None and size_bytes:
            with self._changed:
                if self._bucket is not None:
                    self._bucket.give_back(size_bytes)

    def _draw(self, size_bytes: int) -> float:
        return 0.0 if self._bucket is None else self._bucket.draw(size_bytes, self._clock())
