"""Remembers which origins asked for a pause, and until when."""

import threading
import time
from collections.abc import Callable, Mapping

from shared.errors import RateLimited
from shared.http.origins import Origin, public
from shared.http.retry_after import asked_wait_s, wait_message


class RateLimitedOrigins:
    """Refuses every request to an origin until its pause ends. Thread-safe.

    Args:
        clock: Monotonic seconds.
        now: Seconds since 1970, for dates in headers.
    """

    def __init__(self, clock: Callable[[], float], now: Callable[[], float] = time.time) -> None:
        self._clock, self._now = clock, now
        self._until: dict[Origin, float] = {}
        self._lock = threading.Lock()

    def check(self, origin: Origin, url: str) -> None:
        """Raise RateLimited if the origin has asked for a pause that is not over."""
        with self._lock:
            left_s = self._until.get(origin, 0.0) - self._clock()
            if left_s <= 0:
                self._until.pop(origin, None)
                return
        raise self._error(origin, url, left_s)

    def note(self, origin: Origin, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Raise RateLimited if a response asks for a pause, and refuse later requests until it ends."""
        wait_s = asked_wait_s(status, headers, self._now())
        if wait_s is None:
            return
        with self._lock:
            self._until[origin] = max(self._until.get(origin, 0.0), self._clock() + wait_s)
        raise self._error(origin, url, wait_s)

    def _error(self, origin: Origin, url: str, wait_s: float) -> RateLimited:
        message = wait_message(wait_s, self._now())
        return RateLimited(f"{origin.host} asks to wait {message} before {public(url)}", wait_s)
