"""How many connections a download has: more only while that brings more."""

_WINDOW_S = 1.0
_WORTH = 1.15
_AGAIN_S = 30.0


class Width:
    """Doubles the connections as long as the rate rises by a sixth, goes back by one step, and tries again later.

    Near servers stay at a connection a file, far ones get several. Time comes with each call; not thread-safe.
    """

    def __init__(self, first: int, most: int, now: float) -> None:
        self.connections = min(first, most)
        self._most = most
        self._then, self._received = now, 0
        self._before = self.connections  # what to go back to
        self._rate_before = 0.0
        self._on_trial = True
        self._rests_until = 0.0

    def observe(self, received_bytes: int, now: float) -> int:
        """Take all that was received so far, and return the connections that there shall be."""
        took_s = now - self._then
        if took_s < _WINDOW_S:
            return self.connections
        rate = (received_bytes - self._received) / took_s
        self._then, self._received = now, received_bytes
        if self._on_trial and rate < self._rate_before * _WORTH:
            self.connections = self._before
            self._rest(now)
        elif self._on_trial or now >= self._rests_until:
            self._widen(rate, now)
        return self.connections

    def _widen(self, rate: float, now: float) -> None:
        if self.connections == self._most:
            self._rest(now)
            return
        self._before, self._rate_before, self._on_trial = self.connections, rate, True
        self.connections = min(self._most, self.connections * 2)

    def _rest(self, now: float) -> None:
        self._on_trial, self._rests_until = False, now + _AGAIN_S
