"""The arithmetic of rate limiting: how much may be taken by now."""

from dataclasses import dataclass

_ROUNDING_S = 1e-9


@dataclass(slots=True)
class TokenBucket:
    """Tokens that accrue at `rate` > 0 per second, up to `burst`; the caller passes the time. Not thread-safe."""

    rate: float
    burst: float
    filled_at: float
    tokens: float = 0.0

    def draw(self, count: float, now: float) -> float:
        """Take tokens and return 0, or take none and return the seconds until the next try.

        More tokens than the bucket holds are taken on credit, once it is full.
        """
        wait_s = self.wait_s(min(count, self.burst), now)
        if not wait_s:
            self.tokens -= count
        return wait_s

    def wait_s(self, count: float, now: float) -> float:
        """Return the seconds until this many tokens are available, counting those in the bucket."""
        self.tokens = min(self.tokens + max(0.0, now - self.filled_at) * self.rate, self.burst)
        self.filled_at = now
        return rounded_wait_s((count - self.tokens) / self.rate)

    def give_back(self, count: float) -> None:
        """Return unused tokens."""
        self.tokens = min(self.tokens + count, self.burst)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Change the rate; tokens in the bucket stay as far as they fit."""
        self.wait_s(0.0, now)
        self.rate, self.burst = rate, burst
        self.tokens = min(self.tokens, burst)


def rounded_wait_s(wait_s: float) -> float:
    """Return a wait; 0 if it is over, or so short that an event loop may have ended it that much early."""
    return wait_s if wait_s > _ROUNDING_S else 0.0
