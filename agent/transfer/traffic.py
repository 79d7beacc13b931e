"""Totals per kind of source since the start: metrics only, never used in decisions."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from shared.errors import LarderError, RateLimited


@dataclass(slots=True)
class Traffic:
    """Totals over all downloads. Thread-safe.

    `received_bytes` includes discarded bytes; `retries` counts repeated attempts at a file, by reason.
    """

    received_bytes: int = 0
    verified_files: int = 0
    verified_bytes: int = 0
    verification_s: float = 0.0
    mismatches: int = 0
    rate_limited: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def count_received(self, size_bytes: int) -> None:
        """Count bytes received over the network."""
        with self._lock:
            self.received_bytes += size_bytes

    def count_verified(self, size_bytes: int, took_s: float) -> None:
        """Count a file whose bytes were verified, and the seconds that hashing it took."""
        with self._lock:
            self.verified_files += 1
            self.verified_bytes += size_bytes
            self.verification_s += took_s

    def count_mismatch(self) -> None:
        """Count a file whose bytes do not match the publisher's digest."""
        with self._lock:
            self.mismatches += 1

    def count_if_rate_limited(self, error: LarderError) -> None:
        """Count a failure if it is a source's request to wait."""
        if isinstance(error, RateLimited):
            with self._lock:
                self.rate_limited += 1

    def count_retry(self, error: LarderError) -> None:
        """Count one more attempt at a file after this error."""
        with self._lock:
            self.retries[error.reason] += 1
