"""Creates volumes and claims at a bounded rate, so that a burst of pods does not flood the storage backend."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field

from prometheus_client import Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import CollectorRegistry

from controller.manager.state_metrics import gauge
from shared.backoff import Backoff
from shared.kube.errors import KubeError, Refused
from shared.token_bucket import TokenBucket

MAX_ATTEMPTS = 10
_INTERNAL = 500
_BUCKETS_S = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class ProvisionRequest:
    """A request to create the objects of one owner.

    Args:
        key: Identifies the request; a second one with the same key is ignored while the first waits.
        create: Creates what is missing of the objects. Must be idempotent: after a failure it runs again.
        on_failure: Called when the request is refused (the error is not retryable), which ends it, or has failed
            `MAX_ATTEMPTS` times in a row, which sends it to the tail.
        on_created: Called when the objects exist.
    """

    key: Hashable
    create: Callable[[], Awaitable[None]]
    on_failure: Callable[[KubeError], None]
    on_created: Callable[[], None]


@dataclass(slots=True)
class Provisioner:
    """A queue in order of arrival under one token bucket.

    A request that fails is retried at the head, with backoff: while the API server or the storage backend is in
    trouble, nothing else is created either. One that is refused, for example by a quota, ends at once, because its
    namespace alone is affected.

    Only a leader runs it. Requests are lost when it ends; the next leader's reconcilers make them again from the
    cluster's state.
    """

    rate: float
    burst: float
    clock: Callable[[], float]
    registry: CollectorRegistry
    on_internal_error: Callable[[Hashable, Exception], None]
    backoff: Backoff = Backoff(first_s=0.5, cap_s=30)
    _waiting: OrderedDict[Hashable, tuple[ProvisionRequest, float]] = field(default_factory=OrderedDict, init=False)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _wait_time: Histogram = field(init=False)

    def __post_init__(self) -> None:
        self._wait_time = Histogram(
            "larder_provisioner_wait_seconds",
            "How long requests for volumes and claims waited for their turn.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )

    def request(self, request: ProvisionRequest) -> None:
        """Queue a request, unless one with its key waits already."""
        if request.key not in self._waiting:
            self._waiting[request.key] = (request, self.clock())
            self._arrival.set()

    def withdraw(self, key: Hashable) -> None:
        """Remove a request that is no longer needed."""
        self._waiting.pop(key, None)

    def gauges(self) -> Iterable[Metric]:
        """Return the length of the queue."""
        return (gauge("larder_provisioner_depth", "Requests for volumes and claims that wait.", len(self._waiting)),)

    async def run(self) -> None:
        """Serve requests until cancelled."""
        bucket = TokenBucket(self.rate, self.burst, self.clock(), tokens=self.burst)
        try:
            while True:
                while not self._waiting:
                    self._arrival.clear()
                    await self._arrival.wait()
                if wait_s := bucket.wait_s(1, self.clock()):
                    await asyncio.sleep(wait_s)
                bucket.draw(1, self.clock())
                await self._serve_head()
        finally:
            self._waiting.clear()

    async def _serve_head(self) -> None:
        """Serve the request at the head until it ends, is withdrawn or replaced, or has failed too often."""
        if not self._waiting:
            return  # withdrawn while it waited for a token
        request, since = next(iter(self._waiting.values()))
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await request.create()
            except Exception as error:  # noqa: BLE001 - one request with an internal error must not end all others
                failure = self._as_kube_error(request, error)
            else:
                self._wait_time.observe(self.clock() - since)
                if self._is_waiting(request):
                    self.withdraw(request.key)
                request.on_created()
                return
            if not self._is_waiting(request):
                return
            if not failure.retryable or attempt == MAX_ATTEMPTS:
                self._give_up(request, failure)
                return
            await asyncio.sleep(self.backoff.delay_s(attempt))
            if not self._is_waiting(request):
                return

    def _as_kube_error(self, request: ProvisionRequest, error: Exception) -> KubeError:
        """Return the error, or for one that nobody expected a refusal, once it is counted."""
        if isinstance(error, KubeError):
            return error
        self.on_internal_error(request.key, error)
        return Refused(f"internal error: {type(error).__name__}: {error}", _INTERNAL)

    def _is_waiting(self, request: ProvisionRequest) -> bool:
        """Return whether a request was neither withdrawn nor replaced while it was served."""
        return self._waiting.get(request.key, (None, 0.0))[0] is request

    def _give_up(self, request: ProvisionRequest, error: KubeError) -> None:
        """End a request that is refused; send one that failed too often to the tail."""
        if error.retryable:
            self._waiting.move_to_end(request.key)
        else:
            self.withdraw(request.key)
        request.on_failure(error)
