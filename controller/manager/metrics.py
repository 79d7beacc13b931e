"""The controller's own metrics; none has labels per node and model."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.build_info import register_build_info
from shared.internal_errors import InternalErrors


class _InternalErrors(Collector):
    def __init__(self, errors: InternalErrors) -> None:
        self._errors = errors

    def collect(self) -> Iterator[Metric]:
        """Yield one sample per component."""
        family = CounterMetricFamily(
            "larder_internal_errors",
            "Unexpected errors in Larder's own code, by the part where they happened; each is logged.",
            labels=["part"],
        )
        for part, count in sorted(self._errors.counts.items()):
            family.add_metric([part], count)
        yield family


class Metrics:
    """Metrics that belong to no single feature, and the registry of this replica; features register their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        register_build_info(self.registry)
        self.leading = Gauge("larder_leader", "1 while this replica leads.", registry=self.registry)
        self.reconcile_time = Histogram(
            "larder_reconcile_time_seconds", "Duration of a reconcile.", ["controller"], registry=self.registry
        )
        self.reconciles = Counter(
            "larder_reconcile", "Reconciles, by result.", ["controller", "result"], registry=self.registry
        )
        self.internal_errors = InternalErrors()
        self.registry.register(_InternalErrors(self.internal_errors))
        self.watch_restarts = Counter(
            "larder_watch_restarts", "Restarted watches.", ["resource"], registry=self.registry
        )
        self._requests = Counter(
            "larder_http_requests",
            "Requests to admission and the agents' API, by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.certificate_end = Gauge(
            "larder_certificate_expiration_timestamp_seconds",
            "When the serving certificate expires, as a Unix timestamp.",
            registry=self.registry,
        )

    def request(self, route: str, status: int) -> None:
        """Count an answered request."""
        self._requests.labels(route, str(status)).inc()
