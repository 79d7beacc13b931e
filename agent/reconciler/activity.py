"""Progress of running downloads, written by their threads and read by the event loop."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from agent.controller_client import ControllerClient
from agent.reconciler.observation import Cause, Key
from agent.store.scrub import ScrubFigures
from agent.transfer.progress import Progress
from agent.transfer.traffic import Traffic
from shared.api.wire import EntryProgress, ProgressReport
from shared.errors import LarderError
from shared.internal_errors import InternalErrors
from shared.sources.schemes import SERVED_SCHEMES

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_EVERY_S = 1.0
_AFTER_REFUSAL_S = 5.0


DOWNLOAD, REPAIR = "download", "repair"
KINDS = (DOWNLOAD, REPAIR)
COMPLETE, STOPPED, FAILED = "complete", "stopped", "failed"


class DownloadResult(NamedTuple):
    """How a download ended: complete, stopped, or failed with a reason."""

    result: str
    reason: str = ""


@dataclass(slots=True)
class RemovalProgress:
    """Progress of a removal, in bytes.

    `total` includes bytes shared with other snapshots, which stay on disk.
    """

    total: int
    done: int = 0


@dataclass(slots=True)
class Activity:
    """All running downloads and removals, and counters since the agent started.

    Only the event loop writes it, except `traffic` and `scrub`.
    """

    running: dict[Key, Progress] = field(default_factory=dict)
    removals: dict[Key, RemovalProgress] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)  # by kind
    ended: Counter[tuple[str, DownloadResult]] = field(default_factory=Counter)  # by kind and result
    failures: Counter[str] = field(default_factory=Counter)  # by reason
    removed: int = 0
    freed_bytes: int = 0
    damaged: int = 0
    watch_restarts: int = 0
    internal_errors: InternalErrors = field(default_factory=InternalErrors)
    scrub: ScrubFigures = field(default_factory=ScrubFigures)
    traffic: Mapping[str, Traffic] = field(default_factory=lambda: {scheme: Traffic() for scheme in SERVED_SCHEMES})

    def start(self, key: Key, uri: str, kind: str) -> Progress:
        """Register a new download from this URI and return its progress."""
        self.started[kind] += 1
        progress = self.running[key] = Progress(traffic=self.traffic.get(uri.partition("://")[0]))
        return progress

    def end(self, key: Key, kind: str, result: DownloadResult) -> None:
        """Drop a finished download and count how it ended."""
        self.running.pop(key, None)
        self.ended[kind, result] += 1

    def count_freed(self, key: Key, size_bytes: int) -> None:
        """Count bytes freed by a removal."""
        self.freed_bytes += size_bytes
        if removal := self.removals.get(key):
            removal.done += size_bytes

    def retrying(self, key: Key) -> Cause | None:
        """Return the failure that a download is currently retrying."""
        running = self.running.get(key)
        error = running.failure if running else None
        return Cause(error.reason, str(error)) if error else None

    def all_retrying(self) -> Mapping[Key, Cause]:
        """Return the failure each download is currently retrying, by key."""
        return {key: cause for key in self.running if (cause := self.retrying(key))}

    def report(self) -> ProgressReport:
        """Return the progress of all downloads and removals."""
        downloads = (EntryProgress(*k, p.done, p.total, round(p.rate())) for k, p in self.running.items())
        removals = (EntryProgress(*k, r.done, r.total) for k, r in self.removals.items() if r.total)
        return ProgressReport((*downloads, *removals))


@dataclass(slots=True)
class ProgressReporter:
    """Reports progress to the controller every second while something runs.

    Calls `on_failure_change` when the failure that a download is retrying changes.
    """

    activity: Activity
    api: ControllerClient
    on_failure_change: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Report until cancelled; downloads continue when the controller cannot be reached."""
        before: Mapping[Key, Cause] = {}
        pause_s = _EVERY_S
        while True:
            await self.sleep(pause_s)
            retrying = self.activity.all_retrying()
            if retrying != before:
                self.on_failure_change()
            before = retrying
            pause_s = await self._report()

    async def _report(self) -> float:
        report = self.activity.report()
        if not report.entries:
            return _EVERY_S
        try:
            await self.api.report(report)
        except LarderError as error:
            _LOG.warning("progress_not_reported", reason=error.reason, message=str(error))
            return _AFTER_REFUSAL_S
        return _EVERY_S
