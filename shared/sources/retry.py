"""When to try again, and when to give up."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from shared.errors import InsufficientStorage, LarderError, RateLimited, SourceChanged, StoreFailure, Unreachable

T = TypeVar("T")
WORTH_BYTES = 16 * 1024  # an attempt that brings so much was worth its request
_LEAST_JITTER = 0.5


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a file is tried without a byte of progress; with progress there is no end.

    `asked_s` is the patience with a server that asks for time, where it is more than `patience_s`.
    """

    attempts: int = 6
    patience_s: float = 120.0
    first_s: float = 0.5
    longest_s: float = 30.0
    asked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Time and chance."""

    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random


def pause_before_retry(
    policy: RetryPolicy,
    error: LarderError,
    failures: int,
    idle_s: float,
    chance: float,
    *,
    poor: int = 0,
    brought_bytes: int = 0,
) -> float | None:
    """Return how long to wait before the next try, None to give up.

    `failures` counts those since the last progress, this one included; `idle_s` is the time since; `chance` is in
    [0, 1). `brought_bytes` came before this failure: the more, the shorter is the pause. `poor` counts the failures
    since an attempt brought WORTH_BYTES: they lengthen it though each may have brought something. A server that asks
    for more time than there is patience for is left to the caller's longer back-off.
    """
    if not error.retryable or isinstance(error, InsufficientStorage | StoreFailure | SourceChanged):
        return None
    back_off = min(policy.longest_s, policy.first_s * 2 ** min(max(failures, poor) - 1, 30))
    if brought_bytes:
        back_off = min(back_off, policy.first_s * WORTH_BYTES / brought_bytes)
    pause_s = back_off * (_LEAST_JITTER + (1 - _LEAST_JITTER) * chance)
    patience_s = policy.patience_s
    if isinstance(error, RateLimited):
        pause_s += max(0.0, error.after_s)
        patience_s = max(patience_s, policy.asked_s)
    elif failures >= _most_tries(policy, error):
        return None
    return pause_s if idle_s + pause_s <= patience_s else None


def _most_tries(policy: RetryPolicy, error: LarderError) -> int:
    tries = error.tries if isinstance(error, Unreachable) else 0
    return min(tries or policy.attempts, policy.attempts)


class Streak:
    """Failures in a row, without progress between them. Not thread-safe.

    A server that asks for time is alive: of what fails afterwards, the tries and the patience are counted anew.
    """

    def __init__(self, policy: RetryPolicy, timing: Timing) -> None:
        self._policy, self._timing = policy, timing
        self.end()

    def end(self) -> None:
        """Note that there was progress."""
        self._failures = self._since_asked = 0
        self._began = self._asked_until = self._timing.clock()

    def pause(self, error: LarderError, *, poor: int = 0, brought_bytes: int = 0) -> float | None:
        """Count a failure and return how long to wait, as `pause_before_retry` does."""
        now, asks = self._timing.clock(), isinstance(error, RateLimited)
        self._failures += 1
        self._since_asked += 1
        failures, since = (self._failures, self._began) if asks else (self._since_asked, self._asked_until)
        chance = self._timing.random()
        pause_s = pause_before_retry(
            self._policy, error, failures, now - since, chance, poor=poor, brought_bytes=brought_bytes
        )
        if asks and pause_s is not None:
            self._since_asked, self._asked_until = 0, now + pause_s
        return pause_s


def act_patiently(
    act: Callable[[], T], policy: RetryPolicy, timing: Timing, wait: Callable[[float, LarderError], None]
) -> T:
    """Return what `act` returns, tried again as the policy says; raises its failure where that makes no sense.

    `wait` is told for how many seconds, and why; what it raises ends this.
    """
    streak = Streak(policy, timing)
    while True:
        try:
            return act()
        except LarderError as error:
            pause_s = streak.pause(error)
            if pause_s is None:
                raise
            wait(pause_s, error)
