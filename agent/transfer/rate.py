"""The byte-rate limit of a node: one bucket that all downloads draw from."""

import threading
import time
from collections.abc import Callable

_BURST_S = 0.1
_GRAIN_S = 0.05
_LEAST_GRAIN_BYTES = 4096
_LONGEST_WAIT_S = 0.2


class Allowance:
    """The arithmetic of a token bucket: what may move by now. Not thread-safe; time comes with each call."""

    def __init__(self, rate: float, now: float) -> None:
        self.rate, self._tokens, self._then = rate, 0.0, now

    def change(self, rate: float, now: float) -> None:
        """Go on with another rate (bytes a second, 0: no limit)."""
        self._fill(now)
        self.rate = rate
        self._tokens = min(self._tokens, rate * _BURST_S)

    def draw(self, size_bytes: int, now: float) -> float:
        """Take the bytes and return 0, or take nothing and return after how many seconds to ask again."""
        if self.rate <= 0:
            return 0.0
        self._fill(now)
        wanted = min(float(size_bytes), self.rate * _BURST_S)  # more than the bucket holds is drawn on credit
        if self._tokens < wanted:
            return (wanted - self._tokens) / self.rate
        self._tokens -= size_bytes
        return 0.0

    def give_back(self, size_bytes: int) -> None:
        """Return what was drawn and not used."""
        self._tokens = min(self._tokens + size_bytes, self.rate * _BURST_S)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + max(0.0, now - self._then) * self.rate, self.rate * _BURST_S)
        self._then = now


class TokenBucket:
    """Bytes a second for all that share it; 0 is no limit. Thread-safe, the rate may change at any time."""

    def __init__(self, rate: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._allowance = clock, Allowance(rate, clock())
        self._changed = threading.Condition()

    @property
    def rate(self) -> float:
        """The limit in force."""
        return self._allowance.rate

    def set_rate(self, rate: float) -> None:
        """Put another limit in force, also for those who wait now."""
        with self._changed:
            self._allowance.change(rate, self._clock())
            self._changed.notify_all()

    def grain(self, most_bytes: int) -> int:
        """Return how much to ask for at a time so that the flow is even."""
        rate = self._allowance.rate
        return most_bytes if rate <= 0 else min(most_bytes, max(_LEAST_GRAIN_BYTES, int(rate * _GRAIN_S)))

    def take(self, size_bytes: int, stop: threading.Event) -> bool:
        """Wait until the bytes may move; False where `stop` was set first."""
        with self._changed:
            while wait_s := self._allowance.draw(size_bytes, self._clock()):
                if stop.is_set():
                    return False
                self._changed.wait(min(wait_s, _LONGEST_WAIT_S))
            return True

    def give_back(self, size_bytes: int) -> None:
        """Return what was taken and did not move."""
        with self._changed:
            self._allowance.give_back(size_bytes)
