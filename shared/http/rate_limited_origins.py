"""Origins that asked to be left alone, and until when."""

import threading
import time
from collections.abc import Callable, Mapping

from shared.errors import RateLimited
from shared.http.origins import Origin, public
from shared.http.retry_after import asked_wait_s, wait_message


class RateLimitedOrigins:
    """No request goes to an origin before the time that it asked for, whoever sends it. Thread-safe.

    `clock` in seconds that no change of the time moves, `now` in seconds since 1970, for dates in headers.
    """

    def __init__(self, clock: Callable[[], float], now: Callable[[], float] = time.time) -> None:
        self._clock, self._now = clock, now
        self._until: dict[Origin, float] = {}
        self._lock = threading.Lock()

    def check(self, origin: Origin, url: str) -> None:
        """Raise RateLimited where the origin is to be left alone now."""
        with self._lock:
            left_s = self._until.get(origin, 0.0) - self._clock()
            if left_s <= 0:
                self._until.pop(origin, None)
                return
        raise self._error(origin, url, left_s)

    def note(self, origin: Origin, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Raise RateLimited where an answer asks for time, and hold back every later request until then."""
        wait_s = asked_wait_s(status, headers, self._now())
        if wait_s is None:
            return
        with self._lock:
            self._until[origin] = max(self._until.get(origin, 0.0), self._clock() + wait_s)
        raise self._error(origin, url, wait_s)

    def _error(self, origin: Origin, url: str, wait_s: float) -> RateLimited:
        words = wait_message(wait_s, self._now())
        return RateLimited(f"{origin.host} asks to wait {words} before {public(url)}", wait_s)
