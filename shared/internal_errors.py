"""Unforeseen errors at run time: each affects only its own work, stays visible, and never ends the program."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from shared.backoff import Backoff

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_RESTART = Backoff(first_s=1, cap_s=60)
_STEADY_S = 300.0


@dataclass(slots=True)
class InternalErrors:
    """Counts unforeseen errors by the part of the program where they happened."""

    counts: Counter[str] = field(default_factory=Counter)
    _last: str = field(default="", init=False)

    def note(self, part: str, error: Exception, **context: object) -> None:
        """Count an error and log it with its traceback."""
        self.counts[part] += 1
        self._last = f"{type(error).__name__} in {part}"
        _LOG.error("internal_error", part=part, exc_info=error, **context)

    def summary(self) -> str:
        """Return one line for the health endpoint, empty without errors. It names no model."""
        if not self._last:
            return ""
        return f"internal errors since the start: {self.counts.total()}, the last: {self._last}; the log has more"


async def keep_running(
    part: str,
    run: Callable[[], Awaitable[None]],
    errors: InternalErrors,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run a loop to its end; restart it with exponential backoff each time an unforeseen error ends it."""
    clock, failures = asyncio.get_running_loop().time, 0
    while True:
        began = clock()
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - the other loops of the program must not end with this one
            failures = 1 if clock() - began >= _STEADY_S else failures + 1
            delay_s = _RESTART.delay_s(failures)
            errors.note(part, error, again_s=round(delay_s, 1))
            await sleep(delay_s)
        else:
            return
