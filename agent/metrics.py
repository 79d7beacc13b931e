"""The agent's metrics: one label for the phase, never one for a model."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.health import Report
from agent.stock.phases import statuses
from shared.api.model_node import Phase


class StockCollector(Collector):
    """Reads the agent's state at each scrape."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield self._models()
        yield CounterMetricFamily(
            "larder_downloaded_bytes", "Bytes that ended downloads brought.", value=self._report.meters.downloaded
        )
        yield _gauge("larder_downloads_running", "Downloads that run.", len(self._report.meters.running))
        yield from self._space()
        figures = self._report.figures()
        yield _gauge("larder_memory_bytes", "Resident memory of the agent.", figures.memory_bytes)
        yield _gauge("larder_open_files", "Open file descriptors of the agent.", figures.open_files)

    def _models(self) -> Metric:
        family = GaugeMetricFamily("larder_models", "Entries of this node by phase.", labels=["phase"])
        counts = Counter(s.phase for s in statuses(self._report.world()))
        for phase in sorted({*counts, *map(str, Phase)}):
            family.add_metric([phase], counts[phase])
        return family

    def _space(self) -> Iterator[Metric]:
        space = self._report.space()
        yield _gauge("larder_store_used_bytes", "Bytes of the store, each file once.", space.used)
        yield _gauge("larder_store_reserved_bytes", "Bytes reserved for what is being fetched.", space.reserved)
        yield _gauge("larder_store_limit_bytes", "Bytes that the store may use; 0 is no limit.", space.limit)
        yield _gauge("larder_disk_free_bytes", "Bytes free on the store's disk.", space.disk_free)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def build_registry(report: Report) -> CollectorRegistry:
    """Return a registry of our own, without the library's default collectors."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StockCollector(report))
    return registry
