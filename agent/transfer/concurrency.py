"""The number of connections of a download; it grows only while more connections bring more throughput."""

_WINDOW_S = 0.5
_WORTH = 1.15
_LEAST_TRIAL_S = 1.0
_PAYS_OFF = 3  # a trial is not worth it for what arrives within this many trials
_AGAIN_S = 30.0
_FEW = 4
_BUSY = 0.7  # of the CPUs' capacity: further connections would only wait for each other
_NEAR_RATE = 200e6  # bytes per second; anything slower than a nearby server gets `_FEW` connections without a trial


class ConcurrencyController:
    """Doubles the connections while that raises the rate by a sixth; otherwise goes back one step and retries later.

    Nearby servers stay at one connection per file; distant ones get several. A connection with a long round trip takes
    a while to reach its full rate, so nothing is judged while the rate still rises, and no step is undone before its
    connections had as long as the first ones took. No connections are added while this process keeps its `processors`
    busy. Time is passed with each call; not thread-safe.
    """

    def __init__(self, first: int, most: int, now: float, processors: int) -> None:
        self.connections = min(first, most)
        self._most, self._processors = most, processors
        self._used_s, self._is_busy = 0.0, False
        self._began = self._then = now
        self._received, self._rate = 0, 0.0
        self._before = self.connections  # the number to go back to
        self._rate_before = 0.0
        self._on_trial = False
        self._trial_s = 0.0
        self._until = 0.0  # the end of the trial, or of the pause after it

    def observe(self, received_bytes: int, missing_bytes: int, now: float, used_s: float) -> int:
        """Take a measurement and return the wanted number of connections.

        Args:
            received_bytes: Bytes received so far.
            missing_bytes: Bytes still to come.
            now: Time in seconds.
            used_s: CPU time used by all threads of this process so far, in seconds.
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
        """Decide on a rate that has settled."""
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
