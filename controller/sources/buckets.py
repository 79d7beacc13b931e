"""How often each of many may ask: a token bucket a name, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_ROUNDING_S = 1e-9


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
    _full_at: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)  # on the clock

    def __len__(self) -> int:
        return len(self._full_at)

    def draw(self, name: str) -> float:
        """Take one and return 0, or take nothing and return in how many seconds there is one."""
        each_s, full_at = 1 / self.rate.per_s, self._filled_at(name)
        wait_s = self.wait_s(name)
        allowed = not wait_s
        self._full_at[name] = full_at + each_s if allowed else full_at
        self._full_at.move_to_end(name)
        while len(self._full_at) > self.most:
            self._full_at.popitem(last=False)
        return 0.0 if allowed else wait_s

    def wait_s(self, name: str, ahead: int = 0) -> float:
        """Return in how many seconds there is one, once `ahead` others have been taken."""
        each_s = 1 / self.rate.per_s
        wait_s = self._filled_at(name) + each_s * (1 + ahead - self.rate.burst) - self.clock()
        return wait_s if wait_s > _ROUNDING_S else 0.0

    def _filled_at(self, name: str) -> float:
        return max(self._full_at.get(name, now := self.clock()), now)

    def give_back(self, name: str) -> None:
        """Put one back that was taken."""
        if name in self._full_at:
            self._full_at[name] -= 1 / self.rate.per_s
