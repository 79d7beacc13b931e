"""Computes the wait after consecutive failures, for the whole project."""

import random
from collections.abc import Callable
from dataclasses import dataclass

Uniform = Callable[[float, float], float]

_LARGEST_EXPONENT = 30  # 2.0**1024 overflows, an exponent that a few hours of failures would reach
_SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff from `first_s` to `cap_s` seconds; each wait is drawn from the upper half."""

    first_s: float
    cap_s: float
    uniform: Uniform = random.uniform

    def delay_s(self, failures: int, asked_s: float = 0.0) -> float:
        """Return the wait in seconds after `failures` >= 1 consecutive failures.

        If a server asked for a wait of `asked_s` seconds, it is never shorter. To spread clients that were asked at the
        same time, up to a quarter of it is added, but no more than `cap_s`.
        """
        full = self.first_s * 2.0 ** min(failures - 1, _LARGEST_EXPONENT)
        own_s = self.uniform(0.5, 1.0) * min(self.cap_s, full)
        if asked_s <= 0:
            return own_s
        return max(own_s, asked_s + self.uniform(0.0, min(_SPREAD * asked_s, self.cap_s)))
