"""The metrics of the agent's devices. Plugin names are safe as labels: only administrators install plugins."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.devices.report import DeviceReport


class DeviceCollector(Collector):
    """Exports the last report on each scrape."""

    def __init__(self, report: Callable[[], DeviceReport], writes: Mapping[str, int]) -> None:
        self._report, self._writes = report, writes

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of devices."""
        report = self._report()
        plugins = GaugeMetricFamily(
            "larder_device_plugin_advertised",
            "1 for each device plugin whose devices are advertised, 0 for each that is left out.",
            labels=["plugin"],
        )
        for plugin in sorted({*report.plugins, *report.failures}):
            plugins.add_metric([plugin], plugin not in report.failures)
        yield plugins
        resources = GaugeMetricFamily(
            "larder_device_resources",
            "Resources that device plugins offer, by where they are written.",
            labels=["place"],
        )
        for place, count in zip(("annotation", "status"), report.resources, strict=True):
            resources.add_metric([place], count)
        yield resources
        yield GaugeMetricFamily(
            "larder_devices_advertised",
            "Whether the Node says what the device plugins offer: 1, or 0 if it could not be written.",
            value=bool(report.polls) and not report.refusal,
        )
        yield CounterMetricFamily("larder_device_polls", "Completed polls of all device plugins.", value=report.polls)
        writes = CounterMetricFamily(
            "larder_device_writes", "Writes of devices to the Node, by what was written.", labels=["what"]
        )
        for what in ("annotations", "status"):
            writes.add_metric([what], self._writes.get(what, 0))
        yield writes
