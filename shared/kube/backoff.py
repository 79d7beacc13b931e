"""How long to wait after the n-th failure in a row: the only place that computes it."""

import random
from collections.abc import Callable
from dataclasses import dataclass

Uniform = Callable[[float, float], float]

_LARGEST_EXPONENT = 30  # 2.0**1024 overflows, which a few hours of failures reach
_SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling from `first_s` to `cap_s`, each wait drawn from its upper half."""

    first_s: float
    cap_s: float
    uniform: Uniform = random.uniform

    def delay_s(self, failures: int, asked_s: float = 0.0) -> float:
        """Return the wait after `failures` >= 1 failures in a row, in seconds.

        A server that asked for `asked_s` seconds gets at least those. Clients that were asked together come back over a
        quarter of that time, though over no more than `cap_s`.
        """
        full = self.first_s * 2.0 ** min(failures - 1, _LARGEST_EXPONENT)
        own_s = self.uniform(0.5, 1.0) * min(self.cap_s, full)
        if asked_s <= 0:
            return own_s
        return max(own_s, asked_s + self.uniform(0.0, min(_SPREAD * asked_s, self.cap_s)))
