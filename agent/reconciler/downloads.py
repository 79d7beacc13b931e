"""The running downloads: how each starts, can be stopped, and ends."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, assert_never

import structlog

from agent.controller_client import ControllerClient
from agent.reconciler.activity import COMPLETE, DOWNLOAD, FAILED, REPAIR, STOPPED, Activity, DownloadResult
from agent.reconciler.downloader import Downloader
from agent.reconciler.failures import FailureRecorder
from agent.reconciler.observation import Key
from agent.reconciler.reservations import Reservations
from agent.reconciler.state_cache import StateCache
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from shared.api.model_node import Entry
from shared.errors import InsufficientStorage, InternalError, LarderError, TooManyFilesOnNode

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Complete:
    """The snapshot is committed; `received_bytes` came over the network."""

    snapshot: Snapshot
    received_bytes: int


@dataclass(frozen=True, slots=True)
class DownloadStopped:
    """The entry is no longer wanted, or the agent is shutting down."""


@dataclass(frozen=True, slots=True)
class OutOfSpace:
    """Something else filled the disk; the download resumes when the missing bytes fit."""

    error: InsufficientStorage


@dataclass(frozen=True, slots=True)
class NoCredentials:
    """The controller did not grant credentials, or did not answer."""

    error: LarderError


@dataclass(frozen=True, slots=True)
class Failed:
    """The source, the files or the disk failed."""

    error: LarderError


@dataclass(frozen=True, slots=True)
class Crashed:
    """A bug in Larder."""

    error: Exception


Ending: TypeAlias = Complete | DownloadStopped | OutOfSpace | NoCredentials | Failed | Crashed


def result_of(ending: Ending) -> DownloadResult:
    """Return how an ending is counted in the metrics."""
    match ending:
        case Complete():
            return DownloadResult(COMPLETE)
        case DownloadStopped():
            return DownloadResult(STOPPED)
        case OutOfSpace(error) | NoCredentials(error) | Failed(error):
            return DownloadResult(FAILED, error.reason)
        case Crashed():
            return DownloadResult(FAILED, InternalError.__name__)
        case _:
            assert_never(ending)


@dataclass(slots=True)
class RunningDownload:
    """A download in progress; `out_of_space` is set if it is being stopped for lack of space."""

    plan: DownloadPlan
    stop: threading.Event = field(default_factory=threading.Event)
    out_of_space: InsufficientStorage | None = None


@dataclass(frozen=True, slots=True)
class Downloads:
    """The running downloads, at most one per entry."""

    cache: StateCache
    api: ControllerClient
    downloader: Downloader
    activity: Activity
    failures: FailureRecorder
    reservations: Reservations
    threads: Executor
    _running: dict[Key, RunningDownload] = field(default_factory=dict, init=False)

    def start(self, entry: Entry, *, repair: bool) -> Callable[[], Awaitable[None]]:
        """Register a download, so that it can be stopped from now on, and return the job to run."""
        running = self._running[entry.key] = RunningDownload(self.cache.plans[entry.key])
        return partial(self._run, entry, running, repair=repair)

    def stop(self, key: Key) -> None:
        """Ask a download to stop; verified bytes are kept."""
        if running := self._running.get(key):
            running.stop.set()

    def stop_all(self, out_of_space: InsufficientStorage | None = None) -> None:
        """Ask all downloads to stop; with `out_of_space`, each resumes when its missing bytes fit."""
        for running in self._running.values():
            running.out_of_space = out_of_space or running.out_of_space
            running.stop.set()

    def plans(self) -> Iterable[DownloadPlan]:
        """Return the plans of the running downloads."""
        return [running.plan for running in self._running.values()]

    async def _run(self, entry: Entry, running: RunningDownload, *, repair: bool) -> None:
        log = _LOG.bind(model=entry.id, revision=entry.revision)
        kind = REPAIR if repair else DOWNLOAD
        ending: Ending = DownloadStopped()  # also if the task is cancelled
        progress = self.activity.start(entry.key, entry.uri, kind)
        damaged = self.cache.held.get(entry.key) if repair else None
        log.info("repair_started" if repair else "download_started", size_bytes=running.plan.manifest.size_bytes)
        try:
            ending = await self._download(entry, running, damaged, progress)
            self._apply(ending, entry, progress, log)
        finally:
            running.stop.set()  # cancelling the task does not stop its thread
            self.activity.end(entry.key, kind, result_of(ending))
            self._running.pop(entry.key, None)
            await self.reservations.release(entry.key)  # before the work ends: the next reservation has the same name
            self.cache.works.pop(entry.key, None)

    async def _download(
        self, entry: Entry, running: RunningDownload, damaged: Snapshot | None, progress: Progress
    ) -> Ending:
        try:
            try:
                response = await self.api.credentials(entry.id, entry.revision)
            except LarderError as error:
                return NoCredentials(error)
            snapshot, received_bytes = await asyncio.get_running_loop().run_in_executor(
                self.threads, self.downloader.download,
                entry, running.plan, response, damaged, progress, running.stop, lambda: self.cache.is_in_use(entry.key),
            )  # fmt: skip
        except Stopped:
            return OutOfSpace(running.out_of_space) if running.out_of_space else DownloadStopped()
        except LarderError as error:
            return Failed(error)
        except Exception as error:  # noqa: BLE001 - raised again once it is counted
            return Crashed(error)
        return Complete(snapshot, received_bytes)

    def _apply(self, ending: Ending, entry: Entry, progress: Progress, log: structlog.stdlib.BoundLogger) -> None:
        match ending:
            case Complete(snapshot, received_bytes):
                self.cache.add_snapshot(entry.key, snapshot)
                self.cache.disk_changes += 1
                self.cache.failures.pop(entry.key, None)
                self.cache.drop_plan(entry.key)
                log.info("snapshot_complete", received_bytes=received_bytes, verified=snapshot.verified)
            case DownloadStopped():
                log.info("download_stopped", done_bytes=progress.done)
            case OutOfSpace(error):
                log.info("download_stopped", done_bytes=progress.done)
                self.failures.wait_for_space(entry, error)
            case NoCredentials(error):
                self.failures.record(entry, error, transient=True)
            case Failed(TooManyFilesOnNode() as error):
                self.cache.drop_plan(entry.key)
                self.failures.wait_for_space(entry, error)
            case Failed(error):
                self.failures.record(entry, error)
            case Crashed(error):
                raise error
            case _:
                assert_never(ending)
