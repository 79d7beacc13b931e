"""Decides whether and when to retry a request to a source; `shared.backoff` computes the waits."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from shared.backoff import Backoff, Uniform
from shared.errors import InsufficientStorage, LarderError, RateLimited, SourceChanged, StoreFailure, Unreachable

T = TypeVar("T")
MIN_PROGRESS_BYTES = 16 * 1024  # an attempt that received this much counts as progress


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a file is retried without progress; with progress there is no limit.

    Args:
        attempts: The limit on tries.
        timeout_s: Seconds without progress after which it gives up.
        first_s: The first pause, in seconds; it doubles with each failure.
        cap_s: The longest pause, in seconds, unless the server asks for more.
        rate_limit_timeout_s: Replaces `timeout_s` for a server that asks for a pause, if it is longer.
    """

    attempts: int = 6
    timeout_s: float = 120.0
    first_s: float = 0.5
    cap_s: float = 30.0
    rate_limit_timeout_s: float = 0.0


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
    failures_since_data: int = 0,
    received_bytes: int = 0,
) -> float | None:
    """Return how many seconds to wait before the next try; None to give up.

    If a server asks for more time than the policy allows, the longer backoff of the caller applies.

    Args:
        policy: The limits.
        error: The failure.
        failures: Failures since the last progress, this one included.
        idle_s: Seconds since the last progress.
        uniform: Draws the jitter.
        failures_since_data: Failures since an attempt received MIN_PROGRESS_BYTES. They lengthen the wait even if each
            received some bytes.
        received_bytes: Bytes that arrived before this failure; the more, the shorter the wait.
    """
    if not error.retryable or isinstance(error, InsufficientStorage | StoreFailure | SourceChanged):
        return None
    is_rate_limited = isinstance(error, RateLimited)
    if not is_rate_limited and failures >= _most_tries(policy, error):
        return None
    cap_s = min(policy.cap_s, policy.first_s * MIN_PROGRESS_BYTES / received_bytes) if received_bytes else policy.cap_s
    asked_s = error.after_s if isinstance(error, RateLimited) else 0.0
    pause_s = Backoff(policy.first_s, cap_s, uniform).delay_s(max(failures, failures_since_data), asked_s)
    timeout_s = max(policy.timeout_s, policy.rate_limit_timeout_s) if is_rate_limited else policy.timeout_s
    return pause_s if idle_s + pause_s <= timeout_s else None


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
        self._failures = self._failures_since_pause = 0
        self._progress_at = self._pause_ends = now

    def pause_s(
        self, error: LarderError, now: float, *, failures_since_data: int = 0, received_bytes: int = 0
    ) -> float | None:
        """Count a failure and return the wait in seconds, or None to give up, as `pause_before_retry` does."""
        is_rate_limited = isinstance(error, RateLimited)
        self._failures += 1
        self._failures_since_pause += 1
        failures, since = (
            (self._failures, self._progress_at) if is_rate_limited else (self._failures_since_pause, self._pause_ends)
        )
        pause_s = pause_before_retry(
            self._policy,
            error,
            failures,
            now - since,
            self._uniform,
            failures_since_data=failures_since_data,
            received_bytes=received_bytes,
        )
        if is_rate_limited and pause_s is not None:
            self._failures_since_pause, self._pause_ends = 0, now + pause_s
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
