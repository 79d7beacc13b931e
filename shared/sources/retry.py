"""Decides whether and when to retry a request to a source; `shared.backoff` computes the waits."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from shared.backoff import Backoff, Uniform
from shared.errors import InsufficientStorage, LarderError, RateLimited, SourceChanged, StoreFailure, Unreachable

T = TypeVar("T")
WORTH_BYTES = 16 * 1024  # an attempt that brought this much was worth its request


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a file is retried without progress; with progress there is no limit.

    Args:
        attempts: The most tries.
        patience_s: Seconds without progress after which it gives up.
        first_s: The first pause, in seconds; it doubles with each failure.
        longest_s: The longest pause, in seconds, unless the server asks for more.
        asked_s: Replaces `patience_s` for a server that asks for a pause, if it is longer.
    """

    attempts: int = 6
    patience_s: float = 120.0
    first_s: float = 0.5
    longest_s: float = 30.0
    asked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock and randomness."""

    clock: Callable[[], float] = time.monotonic
    uniform: Uniform = random.uniform


def pause_before_retry(
    policy: RetryPolicy,
    error: LarderError,
    failures: int,
    idle_s: float,
    uniform: Uniform,
    *,
    poor: int = 0,
    brought_bytes: int = 0,
) -> float | None:
    """Return how many seconds to wait before the next try; None to give up.

    A server that asks for more time than the policy allows is left to the longer backoff of the caller.

    Args:
        policy: The limits.
        error: The failure.
        failures: Failures since the last progress, this one included.
        idle_s: Seconds since the last progress.
        uniform: Draws the jitter.
        poor: Failures since an attempt brought WORTH_BYTES. They lengthen the wait even if each brought some bytes.
        brought_bytes: Bytes that arrived before this failure; the more, the shorter the wait.
    """
    if not error.retryable or isinstance(error, InsufficientStorage | StoreFailure | SourceChanged):
        return None
    asks = isinstance(error, RateLimited)
    if not asks and failures >= _most_tries(policy, error):
        return None
    cap_s = min(policy.longest_s, policy.first_s * WORTH_BYTES / brought_bytes) if brought_bytes else policy.longest_s
    asked_s = error.after_s if isinstance(error, RateLimited) else 0.0
    pause_s = Backoff(policy.first_s, cap_s, uniform).delay_s(max(failures, poor), asked_s)
    patience_s = max(policy.patience_s, policy.asked_s) if asks else policy.patience_s
    return pause_s if idle_s + pause_s <= patience_s else None


def _most_tries(policy: RetryPolicy, error: LarderError) -> int:
    tries = error.tries if isinstance(error, Unreachable) else 0
    return min(tries or policy.attempts, policy.attempts)


class RetryBudget:
    """The tries and the time left for failures without progress; the caller passes the time. Not thread-safe.

    A server that asks for a pause is alive, so failures after the pause get the whole budget again.
    """

    def __init__(self, policy: RetryPolicy, uniform: Uniform, now: float) -> None:
        self._policy, self._uniform = policy, uniform
        self.renew(now)

    def renew(self, now: float) -> None:
        """Record progress."""
        self._failures = self._since_asked = 0
        self._began = self._asked_until = now

    def pause_s(self, error: LarderError, now: float, *, poor: int = 0, brought_bytes: int = 0) -> float | None:
        """Count a failure and return the wait in seconds, or None to give up, as `pause_before_retry` does."""
        asks = isinstance(error, RateLimited)
        self._failures += 1
        self._since_asked += 1
        failures, since = (self._failures, self._began) if asks else (self._since_asked, self._asked_until)
        pause_s = pause_before_retry(
            self._policy, error, failures, now - since, self._uniform, poor=poor, brought_bytes=brought_bytes
        )
        if asks and pause_s is not None:
            self._since_asked, self._asked_until = 0, now + pause_s
        return pause_s


def retry(act: Callable[[], T], policy: RetryPolicy, timing: Timing, wait: Callable[[float, LarderError], None]) -> T:
    """Return what `act` returns, retrying as the policy says; raises the last failure when it gives up.

    `wait` is called with the seconds to wait and the failure; an exception from it ends the retries.
    """
    budget = RetryBudget(policy, timing.uniform, timing.clock())
    while True:
        try:
            return act()
        except LarderError as error:
            pause_s = budget.pause_s(error, timing.clock())
            if pause_s is None:
                raise
            wait(pause_s, error)
