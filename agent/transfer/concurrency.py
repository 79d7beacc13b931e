"""How many connections a download has: more only while that brings more."""

_WINDOW_S = 0.5
_WORTH = 1.15
_LEAST_TRIAL_S = 1.0
_PAYS_OFF = 3  # what comes within so many trials is not worth one
_AGAIN_S = 30.0
_FEW = 4
_BUSY = 0.7  # of what the processors can do: more connections would only wait for each other
_NEAR_RATE = 200e6  # bytes a second; what is slower than a near server gets so few connections without a trial


class ConcurrencyController:
    """Doubles the connections as long as the rate rises by a sixth, goes back by one step, and tries again later.

    Near servers stay at a connection a file, far ones get several. A connection over long round trips takes a while to
    come up to speed: nothing is judged as long as the rate rises by itself, and no step is taken back before its
    connections had as long as the first ones took. Where this process keeps its `processors` busy, none are added.
    Time comes with each call; not thread-safe.
    """

    def __init__(self, first: int, most: int, now: float, processors: int) -> None:
        self.connections = min(first, most)
        self._most, self._processors = most, processors
        self._used_s, self._is_busy = 0.0, False
        self._began = self._then = now
        self._received, self._rate = 0, 0.0
        self._before = self.connections  # what to go back to
        self._rate_before = 0.0
        self._on_trial = False
        self._trial_s = 0.0
        self._until = 0.0  # of a trial, or of the rest after it

    def observe(self, received_bytes: int, missing_bytes: int, now: float, used_s: float) -> int:
        """Take what was received so far and what is still to come, and return the connections that there shall be.

        `used_s` is the processor time that this process has taken so far, of all its threads.
        """
        if not received_bytes:
            self._then, self._used_s = now, used_s
        took_s = now - self._then
        if took_s < _WINDOW_S:
            return self.connections
        rate = (received_bytes - self._received) / took_s
        has_settled = 0 < rate < self._rate * _WORTH
        self._is_busy = used_s - self._used_s > took_s * self._processors * _BUSY
        self._then, self._received, self._rate, self._used_s = now, received_bytes, rate, used_s
        if rate < _NEAR_RATE and self.connections < min(_FEW, self._most):
            self.connections, self._began = min(_FEW, self._most), now
        elif has_settled:
            self._judge(rate, missing_bytes, now)
        return self.connections

    def _judge(self, rate: float, missing_bytes: int, now: float) -> None:
        """Decide at a rate that has settled."""
        self._trial_s = self._trial_s or max(_LEAST_TRIAL_S, now - self._began)
        paid = self._on_trial and rate >= self._rate_before * _WORTH
        if not paid and now < self._until:
            return
        if self._is_busy and not self._on_trial:
            return
        if self._on_trial and not paid:
            self.connections = self._before
        elif not self._is_busy and self.connections < self._most and missing_bytes > rate * self._trial_s * _PAYS_OFF:
            self._widen(rate, now)
            return
        self._on_trial, self._until = False, now + _AGAIN_S

    def _widen(self, rate: float, now: float) -> None:
        self._before, self._rate_before = self.connections, rate
        self._on_trial, self._until = True, now + self._trial_s
        self.connections = min(self._most, self.connections * 2)
