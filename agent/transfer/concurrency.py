"""The number of connections of a download; it grows only while more connections increase the throughput."""

from dataclasses import dataclass

_WINDOW_S = 0.5
_WORTH = 1.15
_LEAST_TRIAL_S = 1.0
_PAYS_OFF = 3  # no trial if the rest would arrive within this many trials
_AGAIN_S = 30.0
_FEW = 4
_BUSY = 0.7  # share of the CPUs; beyond it, more connections would only wait for each other
_NEAR_RATE = 200e6  # bytes per second; anything slower than a nearby server gets `_FEW` connections without a trial


@dataclass(frozen=True, slots=True)
class Steady:
    """The number of connections is fixed; the next trial begins at `trial_at_s` at the earliest."""

    trial_at_s: float


@dataclass(frozen=True, slots=True)
class Trial:
    """The connections were doubled from `before`, which reached `rate_before`."""

    before: int
    rate_before: float
    ends_at_s: float


@dataclass(frozen=True, slots=True)
class _Sample:
    """The last measurement: time, bytes so far, CPU seconds so far, and the rate since the previous sample."""

    now: float
    received_bytes: int = 0
    used_s: float = 0.0
    rate: float = 0.0


class ConcurrencyController:
    """Doubles the connections while that raises the rate by a sixth; otherwise goes back one step and retries later.

    Nearby servers stay at one connection per file; distant ones get several. A connection with a long round trip takes
    a while to reach its full rate, so nothing is judged while the rate still rises, and each step gets as long as the
    first connections took. No connections are added while this process keeps its `processors`
    busy. Time is passed with each call; not thread-safe.

    The states, and the transitions once the rate has settled:

                    idle CPUs, many missing bytes: double
        ┌────────┐ ──────────────────────────────────────▶ ┌───────┐ ───┐ a sixth faster, and again
        │ Steady │                                         │ Trial │    │ many missing bytes: double
        └────────┘ ◀────────────────────────────────────── └───────┘ ◀──┘
                    a sixth faster, but no reason to double: keep
                    time is up: back to the number before

    Example: a distant server gives 10 MB/s to each of four connections once they have warmed up; the link has 85 MB/s.

        second    MB/s     connections
        0.5, 1.0  20, 30   4            still rising
        1.5       40       4
        2.0       40       8            settled 2 s after the start: a trial until 4.0
        2.5, 3.0  60, 80   8            still rising
        3.5       80       16           twice as fast: another trial, until 5.5
        4.0 ...   85, 85   16           no sixth faster, but the trial goes on
        5.5       85       8            time is up; the next trial is at 35.5 at the earliest
    """

    def __init__(self, first: int, most: int, now: float, processors: int) -> None:
        self.connections = min(first, most)
        self._most, self._processors = most, processors
        self._state: Steady | Trial = Steady(trial_at_s=now)
        self._last = _Sample(now)
        self._connected_at_s = now
        self._trial_s = 0.0  # duration of a trial, known once the first rate has settled

    def observe(self, received_bytes: int, missing_bytes: int, now: float, used_s: float) -> int:
        """Take a measurement and return the wanted number of connections.

        Args:
            received_bytes: Bytes received so far.
            missing_bytes: Bytes still to come.
            now: Time in seconds.
            used_s: CPU time used by all threads of this process so far, in seconds.
        """
        if not received_bytes:
            self._last = _Sample(now, used_s=used_s)
        last, took_s = self._last, now - self._last.now
        if took_s < _WINDOW_S:
            return self.connections
        rate = (received_bytes - last.received_bytes) / took_s
        is_busy = used_s - last.used_s > took_s * self._processors * _BUSY
        self._last = _Sample(now, received_bytes, used_s, rate)
        if rate < _NEAR_RATE and self.connections < min(_FEW, self._most):
            self.connections, self._connected_at_s = min(_FEW, self._most), now
        elif 0 < rate < last.rate * _WORTH:
            self._trial_s = self._trial_s or max(_LEAST_TRIAL_S, now - self._connected_at_s)
            is_worth_a_trial = (
                not is_busy and self.connections < self._most and missing_bytes > rate * self._trial_s * _PAYS_OFF
            )
            self._judge(rate, now, is_busy=is_busy, is_worth_a_trial=is_worth_a_trial)
        return self.connections

    def _judge(self, rate: float, now: float, *, is_busy: bool, is_worth_a_trial: bool) -> None:
        """Decide once the rate has settled."""
        match self._state:
            case Steady(trial_at_s):
                if now < trial_at_s or is_busy:  # if the CPUs are busy, the trial begins as soon as they are not
                    return
            case Trial(before, rate_before, ends_at_s):
                if rate < rate_before * _WORTH:
                    if now >= ends_at_s:
                        self.connections, self._state = before, Steady(now + _AGAIN_S)
                    return
        if is_worth_a_trial:
            self._state = Trial(self.connections, rate, now + self._trial_s)
            self.connections = min(self._most, self.connections * 2)
        else:
            self._state = Steady(now + _AGAIN_S)
