"""The arithmetic of a rate: what may be taken by now."""

from dataclasses import dataclass

_ROUNDING_S = 1e-9


@dataclass(slots=True)
class TokenBucket:
    """Tokens that flow in at `rate` > 0 a second, up to `burst`; time comes with each call. Not thread-safe."""

    rate: float
    burst: float
    filled_at: float
    tokens: float = 0.0

    def draw(self, count: float, now: float) -> float:
        """Take tokens and return 0, or take none and return after how many seconds to ask again.

        More than the bucket holds is drawn on credit, once it is full.
        """
        wait_s = self.wait_s(min(count, self.burst), now)
        if not wait_s:
            self.tokens -= count
        return wait_s

    def wait_s(self, count: float, now: float) -> float:
        """Return in how many seconds so many will have come, those in the bucket included."""
        self.tokens = min(self.tokens + max(0.0, now - self.filled_at) * self.rate, self.burst)
        self.filled_at = now
        wait_s = (count - self.tokens) / self.rate
        return wait_s if wait_s > _ROUNDING_S else 0.0

    def give_back(self, count: float) -> None:
        """Return what was drawn and not used."""
        self.tokens = min(self.tokens + count, self.burst)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Go on with another rate; what is in the bucket stays as far as it fits."""
        self.wait_s(0.0, now)
        self.rate, self.burst = rate, burst
        self.tokens = min(self.tokens, burst)
