"""The metric `larder_build_info`, which both programs expose."""

from prometheus_client import CollectorRegistry, Gauge

from shared import __version__


def register_build_info(registry: CollectorRegistry) -> None:
    """Expose the version of the running program as the label of a constant metric."""
    gauge = Gauge("larder_build_info", "Always 1; the label is the version.", ["version"], registry=registry)
    gauge.labels(__version__).set(1)
