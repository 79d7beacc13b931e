"""Detects response bodies that arrive too slowly."""

LEAST_RATE = 8 * 1024.0
_WINDOW_S = 20.0
_SHARE = 0.05


class StallDetector:
    """Watches one body: its bytes, and the seconds spent reading them."""

    def __init__(self, least_rate: float = LEAST_RATE, window_s: float = _WINDOW_S) -> None:
        self._least_rate, self._window_s = least_rate, window_s
        self._size, self._took_s = 0, 0.0

    def observe(self, size_bytes: int, took_s: float, limit: float = 0.0) -> float | None:
        """Return the rate in bytes per second if a whole window was too slow, else None.

        `limit` is the rate limit of all downloads together in bytes per second (0: none); it lowers the rate expected
        from one body.
        """
        self._size += size_bytes
        self._took_s += took_s
        if self._took_s < self._window_s:
            return None
        rate = self._size / self._took_s
        self._size, self._took_s = 0, 0.0
        least = min(self._least_rate, limit * _SHARE) if limit > 0 else self._least_rate
        return rate if rate < least else None
