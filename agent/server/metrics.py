"""The agent's metrics, with labels for phases, reasons and kinds, never for a model."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.reconciler.activity import COMPLETE, KINDS, STOPPED, DownloadResult
from agent.reconciler.observation import Fetching, Observation, Reserved
from agent.reconciler.status import entry_statuses
from agent.server.app import AgentState
from agent.transfer.traffic import Traffic
from shared.api.model_node import EntryStatus, Phase

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
            "larder_snapshots_removed", "Snapshots removed because they are wanted no more.", activity.removed
        )
        yield _counter("larder_removed_bytes", "Bytes that removals gave back to the disk.", activity.freed_bytes)
        yield _counter("larder_snapshots_damaged", "Snapshots found with files missing or changed.", activity.damaged)
        yield _counter(
            "larder_modelnode_watch_restarts", "Times the watch of the ModelNode broke.", activity.watch_restarts
        )
        yield _counters(
            "larder_internal_errors",
            "Errors that the code does not foresee, by the part that they happened in; each is logged.",
            ["part"],
            {(part,): count for part, count in activity.internal_errors.counts.items()},
        )
        yield from self._scrub()

    def _downloads(self) -> Iterator[Metric]:
        activity = self._state.activity
        running = activity.running.values()
        yield _gauge("larder_downloads_running", "Downloads that run, repairs included.", len(running))
        yield _gauge(
            "larder_download_rate_bytes_per_second",
            "Bytes a second that downloads brought over the last five seconds.",
            sum(progress.rate() for progress in running),
        )
        yield _gauge(
            "larder_download_rate_limit_bytes_per_second",
            "The most bytes a second that all downloads together may bring; 0 is no limit.",
            self._state.rate_limit(),
        )
        yield _counters(
            "larder_downloads_started",
            "Downloads begun.",
            ["kind"],
            {(kind,): activity.started[kind] for kind in KINDS},
        )
        yield _counters(
            "larder_downloads_ended",
            "Downloads ended: complete, stopped, or failed for a reason.",
            ["kind", "result", "reason"],
            {(kind, *result): activity.ended[kind, result] for kind, result in {*_EXPECTED, *activity.ended}},
        )
        yield _counters(
            "larder_entry_failures",
            "Failures after which an entry is tried again later, by reason.",
            ["reason"],
            {(reason,): count for reason, count in activity.failures.items()},
        )

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._state.activity.traffic
        for name, text, read in _TRAFFIC:
            yield _counters(name, text, ["source"], {(source,): read(t) for source, t in traffic.items()})
        yield _counters(
            "larder_file_retries",
            "Further tries at a file within a download, by reason.",
            ["source", "reason"],
            {(source, reason): n for source, t in traffic.items() for reason, n in dict(t.retries).items()},
        )

    def _scrub(self) -> Iterator[Metric]:
        scrub = self._state.activity.scrub
        yield _counter("larder_scrubbed_bytes", "Bytes at rest that were read and hashed again.", scrub.size_bytes)
        yield _counter("larder_scrub_damaged_files", "Files whose bytes had changed at rest.", scrub.damaged)
        yield _gauge(
            "larder_scrub_last_pass_timestamp_seconds",
            "When all files had last been read again, in seconds since 1970; 0 before the first time.",
            scrub.ended_at,
        )

    def _space(self, observation: Observation) -> Iterator[Metric]:
        space = self._state.space()
        yield _gauge("larder_store_used_bytes", "Bytes of the store, each file once.", space.used)
        yield _gauge("larder_store_reserved_bytes", "Bytes reserved for what is being fetched.", space.reserved)
        yield _gauge("larder_store_limit_bytes", "Bytes that the store may use; 0 is no limit.", space.limit)
        yield _gauge("larder_disk_free_bytes", "Bytes free on the store's disk.", space.disk_free)
        yield _gauge("larder_disk_floor_bytes", "Bytes of the store's disk that are never filled.", space.floor)
        holders = sum(isinstance(work, Reserved | Fetching) for work in observation.works.values())
        yield _gauge("larder_store_reservations", "Entries that hold a reservation.", holders)


_TRAFFIC: tuple[tuple[str, str, Callable[[Traffic], float]], ...] = (
    (
        "larder_downloaded_bytes",
        "Bytes that came over the network, counted as they come.",
        lambda t: t.received_bytes,
    ),
    ("larder_source_rate_limited", "Answers of a source that ask to wait (429, 503).", lambda t: t.rate_limited),
    ("larder_verified_files", "Files whose bytes were hashed and are right.", lambda t: t.verified_files),
    ("larder_verified_bytes", "Bytes of those files.", lambda t: t.verified_bytes),
    ("larder_verification_seconds", "Time that hashing those files took.", lambda t: t.verification_s),
    ("larder_verification_failures", "Files with other bytes than the publisher named.", lambda t: t.mismatches),
)


def _entries(found: Sequence[EntryStatus]) -> Iterator[Metric]:
    phases = Counter(s.phase for s in found)
    family = GaugeMetricFamily("larder_models", "Entries of this node by phase.", labels=["phase"])
    for phase in sorted({*phases, *map(str, Phase)}):
        family.add_metric([phase], phases[phase])
    yield family
    queued = sum(phases[phase] for phase in _QUEUED)
    yield _gauge("larder_downloads_queued", "Entries that are wanted and whose download has not begun.", queued)
    family = GaugeMetricFamily(
        "larder_models_failing", "Entries of this node that do not go on as they should.", labels=["reason"]
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
    ProcessCollector(registry=registry)
    return registry
