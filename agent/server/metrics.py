"""The agent's metrics, with labels for phases, reasons and kinds, never for a model."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.reconciler.activity import COMPLETE, KINDS, STOPPED, DownloadResult
from agent.reconciler.observation import Downloading, Observation, Reserved
from agent.reconciler.status import entry_statuses
from agent.server.app import AgentState
from agent.transfer.traffic import Traffic
from shared.api.model_node import EntryStatus, Phase
from shared.build_info import register_build_info

_QUEUED = (Phase.PENDING, Phase.WAITING)
_EXPECTED = [(kind, DownloadResult(result)) for kind in KINDS for result in (COMPLETE, STOPPED)]


class AgentCollector(Collector):
    """Reads the agent's state on each scrape."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        observation = self._state.observation()
        yield from _entries(entry_statuses(observation))
        yield from self._downloads()
        yield from self._traffic()
        yield from self._space(observation)
        activity = self._state.activity
        yield _counter(
            "larder_snapshots_removed", "Snapshots removed because they are no longer wanted.", activity.removed
        )
        yield _counter("larder_removed_bytes", "Disk space freed by removals.", activity.freed_bytes)
        yield _counter("larder_snapshots_damaged", "Snapshots found with missing or changed files.", activity.damaged)
        yield _counter(
            "larder_modelnode_watch_restarts", "Restarts of the watch of the ModelNode.", activity.watch_restarts
        )
        yield _counters(
            "larder_internal_errors",
            "Unexpected errors in Larder's own code, by the part where they happened; each is logged.",
            ["part"],
            {(part,): count for part, count in activity.internal_errors.counts.items()},
        )
        yield from self._scrub()

    def _downloads(self) -> Iterator[Metric]:
        activity = self._state.activity
        running = activity.running.values()
        yield _gauge("larder_downloads_running", "Downloads in progress, including repairs.", len(running))
        yield _gauge(
            "larder_download_rate_bytes_per_second",
            "Download rate over the last five seconds.",
            sum(progress.rate() for progress in running),
        )
        yield _gauge(
            "larder_download_rate_limit_bytes_per_second",
            "Limit on the rate of all downloads together; 0 means no limit.",
            self._state.rate_limit(),
        )
        yield _counters(
            "larder_downloads_started",
            "Downloads started.",
            ["kind"],
            {(kind,): activity.started[kind] for kind in KINDS},
        )
        yield _counters(
            "larder_downloads_ended",
            "Downloads finished: complete, stopped, or failed for a reason.",
            ["kind", "result", "reason"],
            {(kind, *result): activity.ended[kind, result] for kind, result in {*_EXPECTED, *activity.ended}},
        )
        yield _counters(
            "larder_entry_failures",
            "Failures after which an entry is retried later, by reason.",
            ["reason"],
            {(reason,): count for reason, count in activity.failures.items()},
        )

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._state.activity.traffic
        for name, text, read in _TRAFFIC:
            yield _counters(name, text, ["source"], {(source,): read(t) for source, t in traffic.items()})
        yield _counters(
            "larder_file_retries",
            "Retries of single files within a download, by reason.",
            ["source", "reason"],
            {(source, reason): n for source, t in traffic.items() for reason, n in dict(t.retries).items()},
        )

    def _scrub(self) -> Iterator[Metric]:
        scrub = self._state.activity.scrub
        yield _counter("larder_scrubbed_bytes", "Stored bytes read again and hashed.", scrub.size_bytes)
        yield _counter("larder_scrub_damaged_files", "Stored files whose bytes had changed.", scrub.damaged)
        yield _gauge(
            "larder_scrub_last_pass_timestamp_seconds",
            "When the last full pass over all files ended, as a Unix timestamp; 0 before the first.",
            scrub.ended_at,
        )

    def _space(self, observation: Observation) -> Iterator[Metric]:
        space = self._state.space()
        yield _gauge("larder_store_used_bytes", "Bytes in the store, counting each file once.", space.used)
        yield _gauge("larder_store_reserved_bytes", "Bytes reserved for downloads in progress.", space.reserved)
        yield _gauge("larder_store_limit_bytes", "Bytes that the store may use; 0 means no limit.", space.limit)
        yield _gauge("larder_disk_free_bytes", "Free bytes on the store's disk.", space.disk_free)
        yield _gauge("larder_disk_floor_bytes", "Bytes of that disk that are always kept free.", space.floor)
        holders = sum(isinstance(work, Reserved | Downloading) for work in observation.works.values())
        yield _gauge("larder_store_reservations", "Entries that hold a reservation.", holders)


_TRAFFIC: tuple[tuple[str, str, Callable[[Traffic], float]], ...] = (
    (
        "larder_downloaded_bytes",
        "Bytes received over the network, counted as they arrive.",
        lambda t: t.received_bytes,
    ),
    ("larder_source_rate_limited", "Responses that asked the agent to wait (429 or 503).", lambda t: t.rate_limited),
    ("larder_verified_files", "Files that were hashed and matched.", lambda t: t.verified_files),
    ("larder_verified_bytes", "Bytes of those files.", lambda t: t.verified_bytes),
    ("larder_verification_seconds", "Time spent hashing those files.", lambda t: t.verification_s),
    (
        "larder_verification_failures",
        "Files that did not match the publisher's digest or size.",
        lambda t: t.mismatches,
    ),
)


def _entries(found: Sequence[EntryStatus]) -> Iterator[Metric]:
    phases = Counter(s.phase for s in found)
    family = GaugeMetricFamily("larder_models", "Entries of this node by phase.", labels=["phase"])
    for phase in sorted({*phases, *map(str, Phase)}):
        family.add_metric([phase], phases[phase])
    yield family
    queued = sum(phases[phase] for phase in _QUEUED)
    yield _gauge("larder_downloads_queued", "Wanted entries whose download has not started.", queued)
    family = GaugeMetricFamily(
        "larder_models_failing", "Entries of this node that have a problem, by reason.", labels=["reason"]
    )
    for reason, count in sorted(Counter(s.reason for s in found if s.reason).items()):
        family.add_metric([reason], count)
    yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _counters(name: str, text: str, labels: Iterable[str], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=list(labels))
    for label_values, value in sorted(values.items()):
        family.add_metric(label_values, value)
    return family


def build_registry(state: AgentState) -> CollectorRegistry:
    """Return a separate registry with the agent's metrics and those of its process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentCollector(state))
    if state.extension:
        registry.register(state.extension.collector)
    ProcessCollector(registry=registry)
    register_build_info(registry)
    return registry
