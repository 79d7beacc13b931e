"""Whether entries that wait for space may fit by now: plain arithmetic. Sizes are in bytes, times in seconds."""

from collections.abc import Collection
from dataclasses import dataclass

_ASK_ANYWAY_S = 300.0  # bounds the age of figures in messages, and catches changes that were missed
_LEAST_STEP_BYTES = 2**30
_STEP_SHARE = 20


@dataclass(frozen=True, slots=True)
class SpaceRetries:
    """When waiting entries last asked, and the least space since: the most used, the least free above the floor."""

    asked_s: float
    used: int
    free: int

    def seen(self, used: int, free: int) -> "SpaceRetries":
        """Return a copy updated with another reading of the disk."""
        return SpaceRetries(self.asked_s, max(self.used, used), min(self.free, free))

    def lets_ask(self, used: int, free: int, shortages: Collection[int], now_s: float) -> bool:
        """Tell whether entries with these shortages should ask again: bytes were freed, or the disk has more free.

        Others write to the disk too, so free space counts only when it covers a shortage or changes it substantially.
        """
        step = min((_step(s) for s in shortages if s > 0), default=None)
        more = step is not None and free - self.free >= step
        return more or used < self.used or now_s - self.asked_s >= _ASK_ANYWAY_S


def _step(shortage: int) -> int:
    return min(shortage, max(_LEAST_STEP_BYTES, shortage // _STEP_SHARE))
