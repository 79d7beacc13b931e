"""Whether those that wait for space may fit by now: plain arithmetic. Sizes are in bytes, times in seconds."""

from collections.abc import Collection
from dataclasses import dataclass

_ASK_ANYWAY_S = 300.0  # so that no figure in a message is older, and a change that was not seen is not missed for ever
_LEAST_STEP_BYTES = 2**30
_STEP_SHARE = 20


@dataclass(frozen=True, slots=True)
class SpaceRetries:
    """When those that wait asked last, and the least room since: the most in use, the least free above the floor."""

    asked_s: float
    used: int
    free: int

    def seen(self, used: int, free: int) -> "SpaceRetries":
        """Return it with another look at the disk."""
        return SpaceRetries(self.asked_s, max(self.used, used), min(self.free, free))

    def lets_ask(self, used: int, free: int, shortages: Collection[int], now_s: float) -> bool:
        """Return whether those that lack so many bytes shall ask again: something went, or the disk has notably more.

        Others write to the disk as well: what is free counts where it covers a shortage, or changes it by much.
        """
        step = min((_step(s) for s in shortages if s > 0), default=None)
        more = step is not None and free - self.free >= step
        return more or used < self.used or now_s - self.asked_s >= _ASK_ANYWAY_S


def _step(shortage: int) -> int:
    return min(shortage, max(_LEAST_STEP_BYTES, shortage // _STEP_SHARE))
