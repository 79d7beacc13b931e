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
    """How often and how long a file is tried without a byte of progress; with progress there is no end."""

    attempts: int = 6
    patience_s: float = 120.0
    first_s: float = 0.5
    longest_s: float = 30.0


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
    if isinstance(error, RateLimited):
        pause_s += max(0.0, error.after_s)
    elif failures >= _most_tries(policy, error):
        return None
    return pause_s if idle_s + pause_s <= policy.patience_s else None


def _most_tries(policy: RetryPolicy, error: LarderError) -> int:
    tries = error.tries if isinstance(error, Unreachable) else 0
    return min(tries or policy.attempts, policy.attempts)


def act_patiently(
    act: Callable[[], T], policy: RetryPolicy, timing: Timing, wait: Callable[[float, LarderError], None]
) -> T:
    """Return what `act` returns, tried again as the policy says; raises its failure where that makes no sense.

    `wait` is told for how many seconds, and why; what it raises ends this.
    """
    failures, since = 0, timing.clock()
    while True:
        try:
            return act()
        except LarderError as error:
            failures += 1
            pause_s = pause_before_retry(policy, error, failures, timing.clock() - since, timing.random())
            if pause_s is None:
                raise
            wait(pause_s, error)
