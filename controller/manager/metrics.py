"""What the controller measures of itself; never a label per node and model."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.admission.server import OUTCOMES, PATHS
from shared.internal_errors import InternalErrors

_ADMISSION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10)


class _InternalErrors(Collector):
    def __init__(self, errors: InternalErrors) -> None:
        self._errors = errors

    def collect(self) -> Iterator[Metric]:
        """Yield one sample per part of the program."""
        family = CounterMetricFamily(
            "larder_controller_internal_errors",
            "Errors that the code does not foresee, by the part that they happened in; each is logged.",
            labels=["part"],
        )
        for part, count in sorted(self._errors.counts.items()):
            family.add_metric([part], count)
        yield family


class Metrics:
    """Every metric of one replica, in a registry of its own; what only a leader knows comes from the census."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        self.leading = Gauge("larder_controller_leading", "1 while this replica leads.", registry=self.registry)
        self.turns = Histogram(
            "larder_controller_reconcile_seconds", "Length of a turn.", ["kind"], registry=self.registry
        )
        self.failures = Counter(
            "larder_controller_reconcile_failures", "Turns that failed.", ["kind"], registry=self.registry
        )
        self.internal_errors = InternalErrors()
        self.registry.register(_InternalErrors(self.internal_errors))
        self.watch_troubles = Counter(
            "larder_controller_watch_troubles", "Watches that had to start again.", ["resource"], registry=self.registry
        )
        self._admission = Histogram(
            "larder_controller_admission_seconds",
            "Time to decide about a review.",
            ["path", "outcome"],
            buckets=_ADMISSION_BUCKETS_S,
            registry=self.registry,
        )
        self._requests = Counter(
            "larder_controller_http_requests",
            "Requests to admission and the agents' API, by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.certificate_end = Gauge(
            "larder_controller_certificate_expiration_timestamp_seconds",
            "When the certificate that is shown ends, in seconds since 1970.",
            registry=self.registry,
        )
        self._evictions = Counter(
            "larder_controller_evictions", "Models evicted from a node to make room.", registry=self.registry
        )
        self._evicted_bytes = Counter(
            "larder_controller_evicted_bytes", "Bytes that those evictions give back.", registry=self.registry
        )
        for path in PATHS:
            for outcome in OUTCOMES:
                self._admission.labels(path, outcome)

    def review(self, path: str, outcome: str, took_s: float) -> None:
        """Note a review that was answered."""
        self._admission.labels(path, outcome).observe(took_s)

    def evict(self, size_bytes: int) -> None:
        """Note an eviction that was decided."""
        self._evictions.inc()
        self._evicted_bytes.inc(size_bytes)

    def request(self, route: str, status: int) -> None:
        """Note a request that was answered."""
        self._requests.labels(route, str(status)).inc()
