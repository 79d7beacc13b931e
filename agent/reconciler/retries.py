"""When a failed entry is retried."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent.reconciler.observation import Cause, Failure, fingerprint
from shared.api.model_node import Entry
from shared.backoff import Backoff, Uniform
from shared.errors import InsufficientStorage, LarderError, NotGranted, PickleRefused, RateLimited

_FIRST_S, _SOON_CAP_S, _GRANT_CAP_S = 2.0, 300.0, 30.0
_UNTIL_IT_CHANGES_S = 365 * 86_400.0  # the same bytes would be refused again, after another full download
_SOMEBODY_S = (15 * 60.0, 60 * 60.0)
_ATTEMPT = " (attempt "
WHEN_SPACE_CHANGES_S = float("inf")


def is_news(before: Cause, after: Cause) -> bool:
    """Tell whether a failure deserves a log line: a shortage that differs only in its other figures does not."""
    if before.reason == after.reason == InsufficientStorage.__name__:
        return before.shortage != after.shortage
    return (before.reason, _words(before)) != (after.reason, _words(after))


def _words(trouble: Cause) -> str:
    """Return the message without the attempt number."""
    return trouble.message.partition(_ATTEMPT)[0]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Retries:
    """Turns errors into failures with a next attempt; `uniform` draws the jitter."""

    uniform: Uniform = random.uniform
    now: Callable[[], datetime] = _utc_now

    def failure(
        self, entry: Entry, error: LarderError, before: Failure | None, now_s: float, *, passing: bool
    ) -> Failure:
        """Return the failure of an entry; consecutive failures of the same request back off exponentially."""
        wish = fingerprint(entry)
        failures = before.failures + 1 if before and before.fingerprint == wish else 1
        delay_s = self.delay_s(error, failures)
        shortage = error.shortage_bytes if isinstance(error, InsufficientStorage) else 0
        message = f"{error}{self._attempt(error, failures, delay_s)}"
        return Failure(Cause(error.reason, message, shortage), now_s + delay_s, wish, failures, passing)

    def _attempt(self, error: LarderError, failures: int, delay_s: float) -> str:
        """Return the attempt number and the time of the next attempt, if the clock decides it."""
        if isinstance(error, InsufficientStorage) or delay_s >= _UNTIL_IT_CHANGES_S:
            return ""
        return f"{_ATTEMPT}{failures}; the next is at {self.now() + timedelta(seconds=delay_s):%Y-%m-%d %H:%M:%S} UTC)"

    def delay_s(self, error: LarderError, failures: int) -> float:
        """Return the delay in seconds after `failures` >= 1 consecutive failures."""
        soon = Backoff(_FIRST_S, _SOON_CAP_S, self.uniform)
        match error:
            case RateLimited(after_s=after_s):
                return soon.delay_s(1, after_s)  # the server gave a time, so earlier failures do not matter
            case NotGranted():
                return Backoff(_FIRST_S, _GRANT_CAP_S, self.uniform).delay_s(failures)
            case PickleRefused():
                return _UNTIL_IT_CHANGES_S
            case LarderError(retryable=False):
                return self.uniform(*_SOMEBODY_S)
            case _:
                return soon.delay_s(failures)
