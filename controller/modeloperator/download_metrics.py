"""Metrics of the downloads of Models; none has a label per Model."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller.downloads.outcome import REASONS
from controller.modeloperator.download_end import DownloadEnd
from shared import errors
from shared.kube.objects import Key

_KNOWN = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.LarderError)
}
_KNOWN |= set(REASONS)
_OTHER = "Other"
_BUCKETS_S = (5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800)


class ModelDownloadMetrics:
    """Counts the downloads that ended while this replica led, each Job once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counted = dict[Key, str]()
        self._ended = Counter(
            "larder_model_operator_downloads_ended",
            "Download Jobs of Models that ended.",
            ["source", "result", "reason"],
            registry=registry,
        )
        self._duration = Histogram(
            "larder_model_operator_download_duration_seconds",
            "Time from the creation of a Model's download Job to its completion.",
            ["source"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._downloaded = Counter(
            "larder_model_operator_downloaded_bytes",
            "Bytes that completed downloads of Models received.",
            ["source"],
            registry=registry,
        )
        self._reused = Counter(
            "larder_model_operator_reused_bytes",
            "Bytes that completed downloads of Models found on the claim.",
            ["source"],
            registry=registry,
        )

    def count(self, model: Key, end: DownloadEnd) -> None:
        """Count the end of a download, once. A tenant can make up reasons, so unknown ones count as Other."""
        if self._counted.get(model) == end.job_uid:
            return
        self._counted[model] = end.job_uid
        if end.reason:
            reason = end.reason if end.reason in _KNOWN else _OTHER
            self._ended.labels(end.source, "failed", reason).inc()
            return
        self._ended.labels(end.source, "complete", "").inc()
        self._duration.labels(end.source).observe(end.duration_s)
        self._downloaded.labels(end.source).inc(end.downloaded_bytes)
        self._reused.labels(end.source).inc(end.reused_bytes)

    def forget(self, model: Key) -> None:
        """Forget a Model that is gone."""
        self._counted.pop(model, None)
