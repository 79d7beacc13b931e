"""How long to wait after the n-th failure in a row."""

import random
from collections.abc import Callable
from dataclasses import dataclass

Uniform = Callable[[float, float], float]

_LARGEST_EXPONENT = 30  # 2.0**1024 overflows, which a few hours of failures reach


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling from `first_s` to `cap_s`, each wait drawn from its upper half."""

    first_s: float
    cap_s: float
    uniform: Uniform = random.uniform

    def delay_s(self, failures: int) -> float:
        """Return the wait after `failures` >= 1 failures in a row, in seconds."""
        full = self.first_s * 2.0 ** min(failures - 1, _LARGEST_EXPONENT)
        return self.uniform(0.5, 1.0) * min(self.cap_s, full)
