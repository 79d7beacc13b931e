"""Metrics of the provisioner."""

from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.manager.state_metrics import gauge

_BUCKETS_S = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_RESULTS = ("created", "refused", "failed", "server_failed")


class ProvisionerMetrics:
    """Metrics of waiting requests and of attempts, by kind of object."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._wait_time = Histogram(
            "larder_provisioner_wait_seconds",
            "How long requests for volumes and claims waited until the objects existed.",
            ["kind"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._attempts = Counter(
            "larder_provisioner_attempts",
            "Attempts to create volumes and claims.",
            ["kind", "result"],
            registry=registry,
        )
        self._depth = defaultdict[str, int](int)

    def queued(self, kind: str) -> None:
        """Count a request that waits; the counters of its kind begin at 0, so that a first failure is an increase."""
        if kind not in self._depth:
            self._wait_time.labels(kind)
            for result in _RESULTS:
                self._attempts.labels(kind, result)
        self._depth[kind] += 1

    def dequeued(self, kind: str) -> None:
        """Count a request that waits no longer."""
        self._depth[kind] -= 1

    def created(self, kind: str, waited_s: float) -> None:
        """Count a request whose objects exist now."""
        self._attempts.labels(kind, "created").inc()
        self._wait_time.labels(kind).observe(waited_s)

    def failed(self, kind: str, result: str) -> None:
        """Count a failed attempt: `refused`, `failed` or `server_failed`."""
        self._attempts.labels(kind, result).inc()

    def gauges(self, server_failures: int) -> Iterable[Metric]:
        """Return the length of the queue by kind, and the failures of the API server in a row."""
        depth = GaugeMetricFamily(
            "larder_provisioner_depth", "Requests for volumes and claims that wait.", labels=["kind"]
        )
        for kind, count in self._depth.items():
            depth.add_metric([kind], count)
        paused = "Failures of the API server in a row, which pause the creation of volumes and claims."
        return depth, gauge("larder_provisioner_server_failures", paused, server_failures)
