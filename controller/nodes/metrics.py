"""Metrics of decisions about nodes."""

from prometheus_client import CollectorRegistry, Counter


class EvictionMetrics:
    """Counts the evictions that this replica decided."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._evictions = Counter("larder_evictions", "Models evicted from a node to make room.", registry=registry)
        self._bytes = Counter("larder_evicted_bytes", "Bytes that those evictions give back.", registry=registry)

    def evict(self, size_bytes: int) -> None:
        """Count an eviction."""
        self._evictions.inc()
        self._bytes.inc(size_bytes)
