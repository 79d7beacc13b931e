"""How far the running downloads are: written by their threads, read by the loop."""

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


class Ending(NamedTuple):
    """How a download ended: complete, stopped, or failed for a reason."""

    result: str
    reason: str = ""


@dataclass(slots=True)
class Removal:
    """How far a removal is, in bytes; `total` counts what other snapshots share as well, which stays."""

    total: int
    done: int = 0


@dataclass(slots=True)
class Activity:
    """Every download and removal that runs, and what has happened since the start.

    The loop's own but for `traffic` and `scrub`.
    """

    running: dict[Key, Progress] = field(default_factory=dict)
    removals: dict[Key, Removal] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)  # by kind
    ended: Counter[tuple[str, Ending]] = field(default_factory=Counter)  # by kind and ending
    failures: Counter[str] = field(default_factory=Counter)  # by reason
    removed: int = 0
    freed_bytes: int = 0
    damaged: int = 0
    watch_restarts: int = 0
    internal_errors: InternalErrors = field(default_factory=InternalErrors)
    scrub: ScrubFigures = field(default_factory=ScrubFigures)
    traffic: Mapping[str, Traffic] = field(default_factory=lambda: {scheme: Traffic() for scheme in SERVED_SCHEMES})

    def start(self, key: Key, uri: str, kind: str) -> Progress:
        """Return the progress of a new download from this URI."""
        self.started[kind] += 1
        progress = self.running[key] = Progress(traffic=self.traffic.get(uri.partition("://")[0]))
        return progress

    def end(self, key: Key, kind: str, ending: Ending) -> None:
        """Forget a download that ended like this."""
        self.running.pop(key, None)
        self.ended[kind, ending] += 1

    def free(self, key: Key, size_bytes: int) -> None:
        """Count bytes that a removal has given back."""
        self.freed_bytes += size_bytes
        if removal := self.removals.get(key):
            removal.done += size_bytes

    def troubles(self) -> Mapping[Key, Cause]:
        """Return what each download is trying again just now."""
        found = ((key, progress.trouble) for key, progress in self.running.items())
        return {key: Cause(error.reason, str(error)) for key, error in found if error}

    def report(self) -> ProgressReport:
        """Return where every download and removal is."""
        downloads = (EntryProgress(*k, p.done, p.total, round(p.rate())) for k, p in self.running.items())
        removals = (EntryProgress(*k, r.done, r.total) for k, r in self.removals.items() if r.total)
        return ProgressReport((*downloads, *removals))


@dataclass(slots=True)
class ProgressReporter:
    """Tells the controller every second while something runs, and the loop when a download's trouble changes."""

    activity: Activity
    api: ControllerClient
    on_trouble: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Ends only by cancellation; downloads go on when nobody listens."""
        before: Mapping[Key, Cause] = {}
        pause_s = _EVERY_S
        while True:
            await self.sleep(pause_s)
            troubles = self.activity.troubles()
            if troubles != before:
                self.on_trouble()
            before = troubles
            pause_s = await self._tell()

    async def _tell(self) -> float:
        report = self.activity.report()
        if not report.entries:
            return _EVERY_S
        try:
            await self.api.report(report)
        except LarderError as error:
            _LOG.warning("progress_not_reported", reason=error.reason, message=str(error))
            return _AFTER_REFUSAL_S
        return _EVERY_S
