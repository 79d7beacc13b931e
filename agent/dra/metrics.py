"""The driver's metrics; no label names a model, a ResourceClaim or a pod."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.dra.devices import DAMAGED_TAINT, LEAVING_TAINT, ModelDevice
from shared.build_info import register_build_info

VERBS = ("prepare", "unprepare")
OUTCOMES = ("answered", "refused", "failed")
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 40)
_STATES = {"": "available", LEAVING_TAINT: "leaving", DAMAGED_TAINT: "damaged"}


class DraMetrics:
    """Times each answer about a ResourceClaim, and reads the gauges on each scrape; all series exist from startup.

    Args:
        prepared: Returns how many ResourceClaims are prepared.
        published: Returns the models that the slices list.
    """

    def __init__(self, prepared: Callable[[], int], published: Callable[[], Sequence[ModelDevice]]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._seconds = Histogram(
            "larder_dra_claim_duration_seconds",
            "Time to prepare a ResourceClaim for kubelet, or to undo it.",
            ["verb", "outcome"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        for verb in VERBS:
            for outcome in OUTCOMES:
                self._seconds.labels(verb, outcome)
        self.registry.register(_DeviceGauges(prepared, published))
        ProcessCollector(registry=self.registry)
        register_build_info(self.registry)

    def answered(self, verb: str, outcome: str, took_s: float) -> None:
        """Record the outcome and duration for one ResourceClaim."""
        self._seconds.labels(verb, outcome).observe(took_s)


class _DeviceGauges(Collector):
    def __init__(self, prepared: Callable[[], int], published: Callable[[], Sequence[ModelDevice]]) -> None:
        self._prepared, self._published = prepared, published

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges with their current values."""
        yield GaugeMetricFamily(
            "larder_dra_claims_prepared", "ResourceClaims prepared on this node.", value=self._prepared()
        )
        family = GaugeMetricFamily(
            "larder_dra_devices_published", "Models that ResourceClaims can hold, by state.", labels=["state"]
        )
        counts = Counter(_STATES[device.taint] for device in self._published())
        for state in _STATES.values():
            family.add_metric([state], counts[state])
        yield family
