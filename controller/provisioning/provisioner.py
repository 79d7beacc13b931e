"""Creates volumes and claims at a bounded rate, so that a burst of pods does not flood the storage backend."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from controller.provisioning.metrics import ProvisionerMetrics
from controller.provisioning.provision_queue import ProvisionQueue, Tier
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.server_outage import ServerOutage, concerns_all
from shared.backoff import Backoff
from shared.kube.errors import KubeError, Refused
from shared.token_bucket import TokenBucket

MAX_IN_FLIGHT = 16  # far fewer than the connections that the controller may have
MAX_PER_FLOW = 5000  # requests of a namespace that wait: each costs memory, and one object may ask for thousands
_INTERNAL = 500
_LONGEST_SETTLE_S = 10.0
_ONE_FLOW = ""

Turns: TypeAlias = Literal["namespaces", "arrival"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionSettings:
    """How fast volumes and claims are created, and in which order.

    Args:
        rate: Requests per second, on average.
        burst: Requests at once after a pause.
        max_attempts: Failures in a row after which a request goes to the tail.
        turns: `namespaces` to have them take turns, or `arrival` for one queue in which a request that fails blocks
            all others.
        backoff: Pause after a failure.
        settle_s: A new leader begins once no request has arrived for this long, because its reconcilers send them in
            any order.
    """

    rate: float
    burst: float
    max_attempts: int = 10
    turns: Turns = "namespaces"
    backoff: Backoff = Backoff(first_s=0.5, cap_s=30)
    settle_s: float = 0.5


@dataclass(slots=True)
class _Waiting:
    """A request in the queue or in service."""

    request: ProvisionRequest
    since_s: float
    attempts: int = 0


@dataclass(slots=True)
class Provisioner:
    """A queue under one token bucket (ADR 0031).

    Namespaces take turns, and the requests of a namespace are served one at a time, oldest owner first. A request that
    fails is retried with backoff before all others if the API server is failing, because they would fail as well,
    and otherwise before others of its namespace. Each attempt takes a token, so that an outage does not cause
    more requests. A request that is refused, for example by a quota, ends at once.

    Only a leader runs it. Requests are lost when it ends; the next leader's reconcilers make them again from the
    cluster's state.
    """

    settings: ProvisionSettings
    clock: Callable[[], float]
    registry: CollectorRegistry
    on_internal_error: Callable[[Hashable, Exception], None]
    _waiting: dict[Hashable, _Waiting] = field(default_factory=dict, init=False)
    _of_flow: dict[Hashable, int] = field(default_factory=dict, init=False)  # how many wait
    _queue: ProvisionQueue = field(default_factory=ProvisionQueue, init=False)
    _held: set[Hashable] = field(default_factory=set, init=False)  # flows with a request in service or in a pause
    _in_flight: int = field(default=0, init=False)
    _successes: int = field(default=0, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _bucket: TokenBucket = field(init=False)
    _outage: ServerOutage = field(init=False)
    _metrics: ProvisionerMetrics = field(init=False)

    def __post_init__(self) -> None:
        burst = self.settings.burst
        self._bucket = TokenBucket(self.settings.rate, burst, self.clock(), tokens=burst)
        self._outage = ServerOutage(self.settings.backoff)
        self._metrics = ProvisionerMetrics(self.registry)

    def request(self, request: ProvisionRequest) -> bool:
        """Queue a request, unless one with its key waits already; return whether one waits now.

        If its namespace has too many requests, this one must be made again later, as after a change of leader.
        """
        if request.key in self._waiting:
            return True
        if (known := self._of_flow.get(request.flow, 0)) >= MAX_PER_FLOW:
            return False
        self._waiting[request.key] = _Waiting(request, self.clock())
        self._metrics.queued(request.kind)
        self._of_flow[request.flow] = known + 1
        self._queue.push(self._flow(request), request.key, request.order)
        self._changed.set()
        return True

    def withdraw(self, key: Hashable) -> None:
        """Remove a request that is no longer needed."""
        if (waiting := self._waiting.pop(key, None)) is not None:
            self._metrics.dequeued(waiting.request.kind)
            self._queue.remove(key)
            if left := self._of_flow.pop(waiting.request.flow) - 1:
                self._of_flow[waiting.request.flow] = left

    def position(self, key: Hashable) -> int | None:
        """Return the place of a request, 1 for one that is served now or next; None if there is none of this key."""
        if key not in self._waiting:
            return None
        ahead = self._queue.ahead_of(key)
        return 1 if ahead is None else 1 + ahead + self._in_flight

    def gauges(self) -> Iterable[Metric]:
        """Return the length of the queue by kind, and the failures of the API server in a row."""
        return self._metrics.gauges(self._outage.failures)

    async def run(self) -> None:
        """Serve requests until cancelled."""
        try:
            await self._settle()
            async with asyncio.TaskGroup() as tasks:
                while True:
                    waiting = await self._next()
                    tasks.create_task(self._serve(waiting))
        finally:
            for key in list(self._waiting):
                self.withdraw(key)
            self._held.clear()
            self._in_flight = 0
            self._outage.clear()

    def _flow(self, request: ProvisionRequest) -> Hashable:
        return request.flow if self.settings.turns == "namespaces" else _ONE_FLOW

    async def _settle(self) -> None:
        """Wait until requests stop coming."""
        end_s = self.clock() + _LONGEST_SETTLE_S
        while (left_s := min(self.settings.settle_s, end_s - self.clock())) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _next(self) -> _Waiting:
        """Return the next request once it may be served, and hold its flow."""
        while True:
            self._changed.clear()
            if not self._may_serve():
                await self._changed.wait()
            elif wait_s := self._wait_s():
                await asyncio.sleep(wait_s)  # tokens are not drawn ahead: a withdrawn request costs none
            elif (key := self._queue.pop(self._is_free)) is not None:
                self._bucket.draw(1, self.clock())
                waiting = self._waiting[key]
                self._held.add(self._flow(waiting.request))
                self._in_flight += 1
                return waiting

    def _may_serve(self) -> bool:
        """Return whether a request may be served: while the server fails, one at a time."""
        most = 1 if self._outage.failures else MAX_IN_FLIGHT
        return self._in_flight < most and self._queue.has(self._is_free)

    def _is_free(self, flow: Hashable) -> bool:
        return flow not in self._held

    def _wait_s(self) -> float:
        now = self.clock()
        return max(self._outage.wait_s(now), self._bucket.wait_s(1, now))

    async def _serve(self, waiting: _Waiting) -> None:
        """Make one attempt, then release the flow."""
        request, begun_s, successes = waiting.request, self.clock(), self._successes
        try:
            error = await self._attempt(request)
        finally:
            self._in_flight -= 1
        flow = self._flow(request)
        pause_s = self._created(waiting) if error is None else self._failed(waiting, error, begun_s, successes)
        if pause_s:
            self._changed.set()
            await asyncio.sleep(pause_s)
        self._held.discard(flow)
        self._changed.set()

    async def _attempt(self, request: ProvisionRequest) -> KubeError | None:
        """Return why the objects could not be created, or None."""
        try:
            await request.create()
        except KubeError as error:
            return error
        except Exception as error:  # noqa: BLE001 - one request with an internal error must not end all others
            self.on_internal_error(request.key, error)
            return Refused(f"internal error: {type(error).__name__}: {error}", _INTERNAL)
        return None

    def _created(self, waiting: _Waiting) -> float:
        request = waiting.request
        self._successes += 1
        self._outage.end()
        self._metrics.created(request.kind, self.clock() - waiting.since_s)
        if self._is_current(waiting):
            self.withdraw(request.key)
        request.on_created()
        return 0.0

    def _failed(self, waiting: _Waiting, error: KubeError, begun_s: float, successes: int) -> float:
        """Decide on a failed attempt; return the seconds for which the flow stays held."""
        request, others_succeed = waiting.request, self._successes > successes
        is_outage = concerns_all(error, others_succeed=others_succeed)
        result = "server_failed" if is_outage else "failed" if error.retryable else "refused"
        self._metrics.failed(request.kind, result)
        if is_outage:
            self._outage.note(error, begun_s, self.clock())
        else:
            self._outage.end()  # the server answers
        if not self._is_current(waiting):
            return 0.0
        if not error.retryable:
            self.withdraw(request.key)
            request.on_failure(error)
            return 0.0
        waiting.attempts += 1
        if waiting.attempts >= self.settings.max_attempts:
            waiting.attempts = 0
            self._queue.push(self._flow(request), request.key, request.order, Tier.TAIL)
            request.on_failure(error)
            return 0.0
        self._queue.push(self._flow(request), request.key, request.order, Tier.RETRY)
        if is_outage:
            self._queue.prefer(self._flow(request))
            return 0.0
        return self.settings.backoff.delay_s(waiting.attempts)

    def _is_current(self, waiting: _Waiting) -> bool:
        """Return whether a request was neither withdrawn nor replaced while it was served."""
        return self._waiting.get(waiting.request.key) is waiting
