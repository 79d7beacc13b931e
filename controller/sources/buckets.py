"""How often each of many may ask: a token bucket a name, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class Rate:
    """How many requests a second in the long run, and how many at one time."""

    per_s: float
    burst: int


@dataclass(slots=True)
class Buckets:
    """One bucket a name; beyond `most` names the one that asked longest ago is forgotten."""

    rate: Rate
    clock: Callable[[], float]
    most: int = 20_000
    _buckets: OrderedDict[str, TokenBucket] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._buckets)

    def draw(self, name: str) -> float:
        """Take one and return 0, or take nothing and return in how many seconds there is one."""
        bucket = self._buckets[name] = self._bucket(name)
        self._buckets.move_to_end(name)
        while len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return bucket.draw(1, self.clock())

    def wait_s(self, name: str, ahead: int = 0) -> float:
        """Return in how many seconds there is one, once `ahead` others have been taken."""
        return self._bucket(name).wait_s(1 + ahead, self.clock())

    def give_back(self, name: str) -> None:
        """Put one back that was taken."""
        if name in self._buckets:
            self._buckets[name].give_back(1)

    def _bucket(self, name: str) -> TokenBucket:
        """Return the bucket of a name, a full one where nobody knows it."""
        return self._buckets.get(name) or TokenBucket(self.rate.per_s, self.rate.burst, self.clock(), self.rate.burst)
