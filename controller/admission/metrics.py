"""Admission metrics."""

from prometheus_client import CollectorRegistry, Histogram

from controller.admission.server import OUTCOMES, PATHS

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10)


class AdmissionMetrics:
    """Metrics of this replica's reviews; every series exists from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "larder_admission_duration_seconds",
            "Time taken to decide an admission review.",
            ["path", "outcome"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        for path in PATHS:
            for outcome in OUTCOMES:
                self._seconds.labels(path, outcome)

    def review(self, path: str, outcome: str, took_s: float) -> None:
        """Count an answered review."""
        self._seconds.labels(path, outcome).observe(took_s)
