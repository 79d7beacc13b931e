"""Limits Events: the same one about an object once an hour, and a budget for each namespace."""

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from controller.manager.event_recorder import EventRecorder
from shared.kube.events import EventSubject
from shared.token_bucket import TokenBucket

_AGAIN_S = 3600.0  # the API server forgets Events after an hour
_MAX_EVENTS = 100  # of one key within the hour: tenants can make up reasons
_LONGEST_STATE_KEY = 64
_RATE, _BURST = 1.0, 200.0  # of one namespace, per second: tenants can make up keys


@dataclass(slots=True)
class LimitedEvents:
    """Writes one Event an hour for each object, reason and state; without budget, a later report writes it."""

    events: EventRecorder
    clock: Callable[[], float]
    _written: dict[Hashable, dict[tuple[str, str, str], float]] = field(default_factory=dict, init=False)
    _budgets: dict[str, TokenBucket] = field(default_factory=dict, init=False)  # by namespace

    async def report(
        self,
        key: Hashable,
        subjects: Iterable[EventSubject],
        reason: str,
        message: str,
        *,
        state_key: str = "",
        warn: bool = True,
    ) -> None:
        """Report a reason on objects, except where it was reported within the last hour.

        Args:
            key: The key that the objects share; `forget` drops its earlier reports.
            subjects: The objects.
            reason: The reason of the Event.
            message: Its message.
            state_key: Distinguishes states with the same reason; a new one is reported at once.
            warn: Whether it is a warning.
        """
        now = self.clock()
        self._expire(now)
        written = self._written[key] = _recent(self._written.pop(key, {}), now)  # keys in the order of their reports
        for subject in dict.fromkeys(subjects):
            event = subject.uid, reason, _short(state_key)
            if event not in written and len(written) < _MAX_EVENTS and self._draw(subject.namespace, now):
                written[event] = now
                await self.events.write(subject, reason, message, warn=warn)

    def forget(self, key: Hashable) -> None:
        """Drop the reports for a key, so that its next reason is reported again."""
        self._written.pop(key, None)

    def _draw(self, namespace: str, now: float) -> bool:
        """Take one Event from the budget of a namespace; return whether it had one."""
        budget = self._budgets.pop(namespace, None) or TokenBucket(_RATE, _BURST, now, tokens=_BURST)
        self._budgets[namespace] = budget  # in the order of their use
        return not budget.draw(1, now)

    def _expire(self, now: float) -> None:
        """Drop the keys, and the budgets of namespaces, that were last used more than an hour ago."""
        while self._budgets and now - next(iter(self._budgets.values())).filled_at >= _AGAIN_S:
            del self._budgets[next(iter(self._budgets))]
        for key in list(self._written):
            if _recent(self._written[key], now):
                return
            del self._written[key]


def _short(state_key: str) -> str:
    """Return the key, or a hash if it is long: tenants may write 256 KiB of it into an annotation."""
    if len(state_key) <= _LONGEST_STATE_KEY:
        return state_key
    return hashlib.sha256(state_key.encode(errors="replace")).hexdigest()


def _recent(written: dict[tuple[str, str, str], float], now: float) -> dict[tuple[str, str, str], float]:
    return {event: at_s for event, at_s in written.items() if now - at_s < _AGAIN_S}
