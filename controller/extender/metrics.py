"""Metrics of the scheduler extender."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

VERBS = ("filter", "prioritize", "bind")
OUTCOMES = ("answered", "refused", "failed")
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.035, 0.05, 0.1, 0.25, 0.5, 2.5)


class ExtenderMetrics:
    """Metrics of this replica's answers; all series of answers are created at startup."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "larder_extender_duration_seconds",
            "Time to answer the scheduler.",
            ["verb", "outcome"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        for verb in VERBS:
            for outcome in OUTCOMES:
                self._seconds.labels(verb, outcome)
        self._conflicts = Counter(
            "larder_extender_reservation_conflicts",
            "Device reservations that were retried because another replica was first.",
            registry=registry,
        )
        self._plugin_failed = Gauge(
            "larder_scheduler_plugin_failed",
            "1 for a scheduler plugin that could not be loaded, or that hung and is no longer called.",
            ["plugin"],
            registry=registry,
        )

    def answered(self, verb: str, outcome: str, took_s: float) -> None:
        """Count an answer."""
        self._seconds.labels(verb, outcome).observe(took_s)

    def conflict(self) -> None:
        """Count a reservation that is retried because another replica was first."""
        self._conflicts.inc()

    def plugin_failed(self, plugin: str) -> None:
        """Report a plugin that failed to load or is no longer called."""
        self._plugin_failed.labels(plugin).set(1)
