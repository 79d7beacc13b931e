"""Executes actions: short ones at once, long ones as tasks that wake the loop when they end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import structlog

from agent.controller_client import ControllerClient
from agent.reconciler.actions import (
    Action,
    ChangeLabels,
    DownloadEntry,
    FetchManifest,
    ReadSnapshotMetadata,
    ReleaseEntry,
    Remove,
    RemoveStartupTaint,
    Reserve,
    SkipEntry,
    StopWork,
)
from agent.reconciler.downloads import Downloads
from agent.reconciler.failures import FailureRecorder
from agent.reconciler.labeller import Labeller
from agent.reconciler.metadata_reader import SnapshotMetadataReader
from agent.reconciler.observation import Downloading, FetchingManifest, Key, ManifestFetched, Removing, Work
from agent.reconciler.removals import Removals
from agent.reconciler.reservations import Reservations
from agent.reconciler.state_cache import StateCache
from agent.reconciler.taint_remover import TaintRemover
from agent.store.download_plan import DownloadPlan
from shared.api.model_node import Entry
from shared.errors import InternalError, LarderError, NotGranted, TooManyFilesOnNode
from shared.internal_errors import InternalErrors

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class ActionExecutor:
    """Executes actions for one node.

    `jobs` owns long-running tasks, at most one per entry; `wake` requests another decision.
    """

    cache: StateCache
    node_name: str
    api: ControllerClient
    labeller: Labeller
    taint_remover: TaintRemover
    reservations: Reservations
    downloads: Downloads
    removals: Removals
    metadata_reader: SnapshotMetadataReader
    failures: FailureRecorder
    errors: InternalErrors
    jobs: asyncio.TaskGroup
    wake: Callable[[], None]
    request_scan: Callable[[], None]
    clock: Callable[[], float]
    _tasks: dict[Key, asyncio.Task[None]] = field(default_factory=dict, init=False)

    async def act(self, action: Action) -> None:
        """Execute an action, or start it; an internal error fails only the entry it belongs to."""
        try:
            await self._execute(action)
        except Exception as error:  # noqa: BLE001 - an internal error in one entry must not end the loop; counted and logged
            await self._note_internal_error(action, error)

    async def _execute(self, action: Action) -> None:
        match action:
            case ChangeLabels() | RemoveStartupTaint():
                await self._change_node(action)
            case FetchManifest(entry):
                self._begin(entry.key, FetchingManifest(entry.manifest), partial(self._fetch_manifest, entry))
            case Reserve(entry):
                await self.reservations.reserve(entry)
            case DownloadEntry(entry, repair):
                self._begin(entry.key, Downloading(entry.manifest), self.downloads.start(entry, repair=repair))
            case StopWork(key):
                self._stop(key)
            case ReleaseEntry(key):
                self.cache.works.pop(key, None)
                await self.reservations.release(key)
            case Remove(entry):
                self._begin(entry.key, Removing(), partial(self.removals.remove, action))
            case SkipEntry(entry):
                self._skip(entry)
            case ReadSnapshotMetadata(entry):
                self.metadata_reader.start(entry)
            case _:
                assert_never(action)

    async def _change_node(self, action: ChangeLabels | RemoveStartupTaint) -> None:
        match action:
            case ChangeLabels(changes):
                await self.labeller.change(dict(changes))
            case RemoveStartupTaint(missing):
                await self.taint_remover.remove(missing)
            case _:
                assert_never(action)

    async def shut_down(self, longest_s: float) -> None:
        """Stop all work, giving downloads up to `longest_s` seconds to end on their own."""
        self.downloads.stop_all()
        self.metadata_reader.stop()
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=longest_s)
        for task in tasks:
            task.cancel()

    async def _fetch_manifest(self, entry: Entry) -> None:
        try:
            self.cache.file_lists.check(entry.key, entry.manifest)
            plan = self.cache.plans.get(entry.key)
            if plan is None or plan.digest != entry.manifest:
                plan = DownloadPlan(await self.api.manifest(entry.manifest))
            revision = plan.manifest.revision
            if revision != entry.revision:
                raise NotGranted(
                    f"manifest {entry.manifest} is for revision {revision}, the entry is for {entry.revision}"
                )
            self.cache.add_plan(entry.key, plan)
        except TooManyFilesOnNode as error:
            self.cache.works.pop(entry.key, None)
            self.failures.wait_for_space(entry, error)
        except LarderError as error:
            self.cache.works.pop(entry.key, None)
            self.failures.record(entry, error, transient=error.retryable)
        else:
            self.cache.works[entry.key] = ManifestFetched(entry.manifest)
            if self.cache.unfinished_to_keep() is not None:  # with all manifests, other unfinished files can go
                self.cache.retry_shortages(self.clock())

    def _stop(self, key: Key) -> None:
        """Stop the work on an entry, unless it has ended since the decision."""
        match self.cache.works.get(key):
            case Downloading() as work:
                self.cache.works[key] = replace(work, stopping=True)
                self.downloads.stop(key)
            case FetchingManifest():
                self.cache.works.pop(key)
                if task := self._tasks.get(key):
                    task.cancel()

    def _skip(self, entry: Entry) -> None:
        self.cache.skipped.add(entry.key)
        _LOG.info(f"Skipping PVC storage type for model {entry.id}", model=entry.id, node=self.node_name)

    async def _note_internal_error(self, action: Action, error: Exception) -> None:
        """Count an internal error, and postpone the next attempt at the entry, the labels or the taint."""
        part = type(action).__name__
        match action:
            case ChangeLabels():
                self.errors.note(part, error)
                self.labeller.schedule_retry(InternalError.__name__, f"{type(error).__name__}: {error}")
            case RemoveStartupTaint():
                self.errors.note(part, error)
                self.taint_remover.schedule_retry(InternalError.__name__, f"{type(error).__name__}: {error}")
            case ReadSnapshotMetadata():
                self.errors.note(part, error)
            case StopWork(key) | ReleaseEntry(key):
                await self._fail(part, key, error)
            case FetchManifest(entry) | Reserve(entry) | DownloadEntry(entry) | Remove(entry) | SkipEntry(entry):
                await self._fail(part, entry.key, error)
            case _:
                assert_never(action)

    async def _fail(self, part: str, key: Key, error: Exception) -> None:
        """Give up an entry's current work; it is retried later if still wanted."""
        self.errors.note(part, error, model=key[0], revision=key[1], node=self.node_name)
        message = f"{part} failed with {type(error).__name__}: {error}; please report this bug with the agent's log"
        for entry in self.cache.entries_of(key):
            self.failures.record(entry, InternalError(message))
        if key not in self._tasks:
            self.cache.works.pop(key, None)
            await self.reservations.release(key)

    def _begin(self, key: Key, work: Work, job: Callable[[], Awaitable[None]]) -> None:
        self.cache.works[key] = work
        task = self._tasks[key] = self.jobs.create_task(self._guarded(key, type(work).__name__, job))
        task.add_done_callback(partial(self._ended, key))

    async def _guarded(self, key: Key, part: str, job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except Exception as error:  # noqa: BLE001 - an internal error in one model must not end the others
            self._tasks.pop(key, None)
            await self._fail(part, key, error)

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        self.request_scan()
        self.wake()
