"""Gauges of cluster state, read at each scrape from the leader only."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, eq=False)  # a registry keys its collectors by identity
class StateMetrics(Collector):
    """Collects the gauges of every controller on the leader; `queued` returns the length of its queue."""

    is_leading: Callable[[], bool]
    queued: Callable[[], int]
    gauges: list[Callable[[], Iterable[Metric]]] = field(default_factory=list)

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge, or nothing on a replica that does not lead."""
        if self.is_leading():
            yield gauge("larder_workqueue_depth", "Keys waiting in the queue.", self.queued())
            for gauges in self.gauges:
                yield from gauges()


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, text, value=value)
