"""Rate limits for many names: one token bucket each, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class Rate:
    """The sustained number of requests per second, and the burst."""

    per_s: float
    burst: int


@dataclass(slots=True)
class KeyedRateLimiter:
    """One token bucket per name; beyond `most` names the least recently used is dropped."""

    rate: Rate
    clock: Callable[[], float]
    most: int = 20_000
    _buckets: OrderedDict[str, TokenBucket] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._buckets)

    def draw(self, name: str) -> float:
        """Take a token and return 0, or take none and return the seconds until one is available."""
        bucket = self._buckets[name] = self._bucket(name)
        self._buckets.move_to_end(name)
        while len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return bucket.draw(1, self.clock())

    def wait_s(self, name: str, ahead: int = 0) -> float:
        """Return the seconds until a token is available after `ahead` others have been taken."""
        return self._bucket(name).wait_s(1 + ahead, self.clock())

    def give_back(self, name: str) -> None:
        """Return a token that was taken."""
        if name in self._buckets:
            self._buckets[name].give_back(1)

    def _bucket(self, name: str) -> TokenBucket:
        """Return the bucket of a name; unknown names start with a full one."""
        return self._buckets.get(name) or TokenBucket(self.rate.per_s, self.rate.burst, self.clock(), self.rate.burst)
