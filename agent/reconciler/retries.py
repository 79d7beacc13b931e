"""When a failed entry is retried, and when entries that do not fit ask for space again. Sizes are in bytes."""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent.reconciler.observation import Cause, Failure, fingerprint
from shared.api.model_node import Entry
from shared.backoff import Backoff, Uniform
from shared.errors import InsufficientStorage, LarderError, NotGranted, PickleRefused, RateLimited, TooManyFilesOnNode

_FIRST_S, _SOON_CAP_S, _GRANT_CAP_S = 2.0, 300.0, 30.0
_NEVER_S = 365 * 86_400.0  # the same bytes would be refused again, after another full download
_NEEDS_ACTION_S = (15 * 60.0, 60 * 60.0)
_ATTEMPT = " (attempt "
_SHORTAGES = (InsufficientStorage.__name__, TooManyFilesOnNode.__name__)  # their messages have changing numbers
WHEN_SPACE_CHANGES_S = float("inf")
_RETRY_ANYWAY_S = 300.0  # bounds the age of figures in messages, and catches changes that were missed
_LEAST_STEP_BYTES = 2**30
_STEP_SHARE = 20


def is_new_failure(before: Cause, after: Cause) -> bool:
    """Return whether to log a failure; after a shortage, another one is logged only if its size has changed."""
    if before.reason == after.reason and after.reason in _SHORTAGES:
        return before.shortage != after.shortage
    return (before.reason, _without_attempt(before)) != (after.reason, _without_attempt(after))


def _without_attempt(cause: Cause) -> str:
    """Return the message without the attempt number."""
    return cause.message.partition(_ATTEMPT)[0]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Retries:
    """Turns errors into failures with a next attempt; `uniform` draws the jitter."""

    uniform: Uniform = random.uniform
    now: Callable[[], datetime] = _utc_now

    def failure(
        self, entry: Entry, error: LarderError, before: Failure | None, now_s: float, *, transient: bool
    ) -> Failure:
        """Return the failure of an entry; consecutive failures of the same request back off exponentially."""
        request = fingerprint(entry)
        same = before if before and before.fingerprint == request else None
        attempts, since_s = (same.attempts + 1, same.since_s) if same else (1, now_s)
        delay_s = self.delay_s(error, attempts)
        shortage = error.shortage_bytes if isinstance(error, InsufficientStorage) else 0
        message = f"{error}{self._attempt(error, attempts, delay_s)}"
        return Failure(Cause(error.reason, message, shortage), now_s + delay_s, request, attempts, transient, since_s)

    def _attempt(self, error: LarderError, attempts: int, delay_s: float) -> str:
        """Return the attempt number and the time of the next attempt; empty if that does not depend on time."""
        if isinstance(error, InsufficientStorage | TooManyFilesOnNode) or delay_s >= _NEVER_S:
            return ""
        return f"{_ATTEMPT}{attempts}; the next is at {self.now() + timedelta(seconds=delay_s):%Y-%m-%d %H:%M:%S} UTC)"

    def delay_s(self, error: LarderError, failures: int) -> float:
        """Return the delay in seconds after `failures` >= 1 consecutive failures."""
        soon = Backoff(_FIRST_S, _SOON_CAP_S, self.uniform)
        match error:
            case RateLimited(after_s=after_s):
                return soon.delay_s(1, after_s)  # the server gave a time, so earlier failures do not matter
            case NotGranted():
                return Backoff(_FIRST_S, _GRANT_CAP_S, self.uniform).delay_s(failures)
            case PickleRefused():
                return _NEVER_S
            case LarderError(retryable=False):
                return self.uniform(*_NEEDS_ACTION_S)
            case _:
                return soon.delay_s(failures)


@dataclass(frozen=True, slots=True)
class SpaceWatermark:
    """When waiting entries last asked for space, and since then the most bytes used and the fewest free."""

    asked_s: float
    used: int
    free: int

    def lowered(self, used: int, free: int) -> "SpaceWatermark":
        """Return a copy updated with another reading of the disk."""
        return SpaceWatermark(self.asked_s, max(self.used, used), min(self.free, free))

    def allows_retry(self, used: int, free: int, shortages: Collection[int], now_s: float) -> bool:
        """Return whether entries with these shortages should ask again.

        They should if bytes were freed, if the disk has more free space, or after five minutes. Other programs use the
        disk too, so free space counts only if it has grown by a whole shortage, or by 1 GiB and 5 % of one.
        """
        step = min((_step(s) for s in shortages if s > 0), default=None)
        more = step is not None and free - self.free >= step
        return more or used < self.used or now_s - self.asked_s >= _RETRY_ANYWAY_S


def _step(shortage: int) -> int:
    return min(shortage, max(_LEAST_STEP_BYTES, shortage // _STEP_SHARE))
