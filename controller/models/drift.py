"""Checks periodically, outside the queue, whether sources have new revisions; downloads nothing."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from controller.models.view import Obstacle, Upstream
from controller.placement.demand import Demand
from controller.sources.fair_slots import FairSlots
from controller.state.keys import ModelKey
from shared.errors import InvalidURI, LarderError, RateLimited, Unreachable
from shared.uri.artifact import ArtifactUri
from shared.uri.git import GitUri
from shared.uri.model_uri import HfUri, parse_uri

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_CONCURRENT = 3
_RETRY_S = 900.0  # after a failed check
_log = structlog.get_logger()


def is_immutable(uri: str) -> bool:
    """Return whether a canonical URI names a commit or digest, which can never change."""
    try:
        parsed = parse_uri(uri)
    except InvalidURI:
        return True  # there is nothing to check
    match parsed:
        case HfUri():
            return bool(_COMMIT.fullmatch(parsed.revision))
        case GitUri():
            return bool(_COMMIT.fullmatch(parsed.revision))
        case ArtifactUri():
            return parsed.is_pinned
        case _:
            return False


@dataclass(slots=True)
class DriftChecker:
    """Checks each source every `period_s` seconds (0: never), a few at a time; `on_done` receives each model's key.

    `read_revision` returns the current revision of a source, and raises LarderError. After a server has answered with a
    rate limit, no model from that server is checked until the limit ends.
    """

    read_revision: Callable[[Demand], Awaitable[str]]
    period_s: float
    clock: Callable[[], float]
    on_done: Callable[[ModelKey], None]
    uniform: Callable[[float, float], float] = random.uniform
    _due: dict[str, float] = field(default_factory=dict, init=False)
    _results: dict[str, tuple[str, Upstream]] = field(default_factory=dict, init=False)
    _paused_until: dict[str, float] = field(default_factory=dict, init=False)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = FairSlots(_MAX_CONCURRENT, self.clock)

    def next_check_in_s(self, uid: str) -> float | None:
        """Return the seconds until the next check; None if checks are off, or one is running.

        The first check of an object is due at a random moment in the next period, which spreads a new leader's load.
        """
        if not self.period_s or uid in self._running:
            return None
        due = self._due.setdefault(uid, self.clock() + self.uniform(0.0, self.period_s))
        return max(0.0, due - self.clock())

    def upstream_of(self, uid: str, uri: str) -> Upstream | None:
        """Return the result of the last check of an object's source, or None if none ran since it was resolved."""
        result = self._results.get(uid)
        return result[1] if result and result[0] == uri else None

    def start(self, key: ModelKey, demand: Demand) -> None:
        """Check the source of a demand unless a check is already running."""
        if demand.uid not in self._running:
            task = self._running[demand.uid] = asyncio.create_task(self._check(demand))
            task.add_done_callback(lambda _: self._done(key, demand.uid))

    def reset(self, uid: str) -> None:
        """Discard an earlier result, because the source has just been resolved."""
        self.forget(uid)
        self._due[uid] = self.clock() + self._pause_s()

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted object, and end its check, which would leave a result behind."""
        self._results.pop(uid, None)
        self._due.pop(uid, None)
        if task := self._running.get(uid):
            task.cancel()

    async def stop(self) -> None:
        """Cancel running checks and drop all results, because another replica may lead from now on."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._results.clear()
        self._due.clear()

    def _done(self, key: ModelKey, uid: str) -> None:
        self._running.pop(uid, None)
        self.on_done(key)

    async def _check(self, demand: Demand) -> None:
        server = _server_of(demand.uri)
        async with self._slots.slot(demand.namespace):
            paused_s = self._paused_until.get(server, 0.0) - self.clock()
            if paused_s > 0:
                self._due[demand.uid] = self.clock() + paused_s * self.uniform(1.0, 1.5)
                return
            try:
                upstream, wait_s = Upstream(await self.read_revision(demand)), self._pause_s()
            except LarderError as error:
                upstream, wait_s = self._failed(demand, server, error), self._delay_s(error)
            except Exception as error:  # noqa: BLE001 - a source with a malformed answer must only affect its own model
                _log.exception("drift_check_failed", model=demand.id, uri=demand.uri)
                unusable = Unreachable(f"{demand.uri} returned an unusable answer ({type(error).__name__})")
                upstream, wait_s = self._failed(demand, server, unusable), self._delay_s(unusable)
        self._results[demand.uid] = demand.uri, upstream
        self._due[demand.uid] = self.clock() + wait_s

    def _failed(self, demand: Demand, server: str, error: LarderError) -> Upstream:
        _log.info("drift_check_failed", model=demand.id, uri=demand.uri, reason=error.reason)
        if isinstance(error, RateLimited):
            self._paused_until[server] = self.clock() + error.after_s
        return Upstream("", Obstacle(error.reason, str(error), error.retryable))

    def _pause_s(self) -> float:
        return self.period_s * self.uniform(0.8, 1.2)

    def _delay_s(self, error: LarderError) -> float:
        retry_s = min(self.period_s, _RETRY_S) * self.uniform(0.8, 1.2)
        if isinstance(error, RateLimited):
            return max(retry_s, error.after_s * self.uniform(1.0, 1.2))
        return retry_s if error.retryable else self._pause_s()


def _server_of(uri: str) -> str:
    """Return the server of a source: the hub, or its host, registry or bucket."""
    scheme, _, rest = uri.partition("://")
    return scheme if scheme == "hf" else f"{scheme}://{rest.partition('/')[0]}"
