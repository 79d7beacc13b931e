"""Executes actions: short ones at once, long ones as tasks that wake the loop when they end."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, assert_never

import structlog

from agent.controller_client import ControllerClient
from agent.reconciler.actions import Action, ChangeLabels, Forget, Inspect, Prepare, Remove, Reserve, Skip, Start, Stop
from agent.reconciler.activity import COMPLETE, DOWNLOAD, FAILED, REPAIR, STOPPED, Activity, Ending, Removal
from agent.reconciler.confirm_removal import confirm_removal
from agent.reconciler.download import Downloader, reservation_of
from agent.reconciler.inspector import Inspector
from agent.reconciler.labeller import Labeller
from agent.reconciler.node import OwnNode
from agent.reconciler.observation import Fetching, Key, Prepared, Preparing, Removed, Removing, Reserved
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S, Retries, is_news
from agent.reconciler.state_cache import StateCache, contents_of
from agent.store.floor import StoreVolume
from agent.store.identity import distinct_files
from agent.store.store import Store
from agent.transfer.engine import Stopped
from shared.api.model_node import Entry
from shared.errors import InsufficientStorage, InternalError, LarderError, NotGranted, StoreFailure
from shared.manifest import Manifest

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
T = TypeVar("T")


@dataclass(slots=True)
class ActionExecutor:
    """Executes actions for one node.

    `jobs` owns long-running tasks; `wake` requests another decision.
    """

    cache: StateCache
    store: Store
    api: ControllerClient
    node: OwnNode
    labeller: Labeller
    downloader: Downloader
    inspector: Inspector
    activity: Activity
    threads: Executor
    jobs: asyncio.TaskGroup
    wake: Callable[[], None]
    look_at_node: Callable[[], None]
    look_at_disk: Callable[[], None]
    clock: Callable[[], float]
    volume: StoreVolume
    retries: Retries = Retries()
    _stops: dict[Key, threading.Event] = field(default_factory=dict, init=False)
    _tasks: dict[Key, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _halts: dict[Key, InsufficientStorage] = field(default_factory=dict, init=False)

    async def act(self, action: Action) -> None:
        """Execute an action, or start it; an internal error fails only the entry it belongs to."""
        try:
            await self._take(action)
        except Exception as error:  # noqa: BLE001 - an internal error in one entry must not end the loop; counted and logged
            await self._break_off(action, error)

    async def _take(self, action: Action) -> None:
        match action:
            case ChangeLabels():
                await self.labeller.change(dict(action.changes))
            case Prepare(entry):
                self.cache.works[entry.key] = Preparing(entry.manifest)
                self._begin(entry, partial(self._prepare, entry))
            case Reserve(entry):
                await self._reserve(entry)
            case Start(entry, repair):
                self._start(entry, repair=repair)
            case Stop(key):
                self._stop(key)
            case Forget(key):
                await self._forget(key)
            case Remove(entry):
                self.cache.works[entry.key] = Removing()
                self._begin(entry, partial(self._remove, action))
            case Skip(entry):
                self._skip(entry)
            case Inspect(entry):
                self.inspector.start(entry)
            case _:
                assert_never(action)

    def stop_all(self) -> None:
        """Ask all downloads to stop; verified bytes are kept."""
        for stop in self._stops.values():
            stop.set()

    def halt(self, why: InsufficientStorage) -> None:
        """Stop all downloads because the disk is filling up; each resumes when its missing bytes fit."""
        for key, stop in self._stops.items():
            self._halts[key] = why
            stop.set()

    async def settle(self, longest_s: float) -> None:
        """Stop all work, giving downloads up to `longest_s` seconds to end on their own."""
        self.stop_all()
        self.inspector.stop()
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=longest_s)
        for task in tasks:
            task.cancel()

    async def _prepare(self, entry: Entry) -> None:
        try:
            manifest = self.cache.manifests.get(entry.key)
            if manifest is None or manifest.digest != entry.manifest:
                manifest = await self.api.manifest(entry.manifest)
            if manifest.revision != entry.revision:
                raise NotGranted(
                    f"manifest {entry.manifest} is of revision {manifest.revision}, the entry of {entry.revision}"
                )
        except LarderError as error:
            self.cache.works.pop(entry.key, None)
            self._note_failure(entry, error, passing=error.retryable)
        else:
            self.cache.manifests[entry.key] = manifest
            self.cache.works[entry.key] = Prepared(entry.manifest)
            if self.cache.unfinished_to_keep() is not None:  # all manifests known: other unfinished files may go
                self.cache.retry_shortages(self.clock())

    async def _reserve(self, entry: Entry) -> None:
        manifest = self.cache.manifests[entry.key]
        limit, keep, changes = self.cache.storage_limit, self.cache.unfinished_to_keep(), self.cache.disk_changes
        try:
            need = await self._in_thread(self._take_room, entry, manifest, limit, keep)
        except InsufficientStorage as error:
            self._wait_for_space(entry, error)
            with suppress(LarderError):  # the current free space counts from here on, not that of the last scan
                self.cache.take_free(await self._in_thread(self.store.disk_free))
            if changes != self.cache.disk_changes:
                self.cache.retry_shortages(self.clock())  # the need was computed while files were being removed
            return
        except LarderError as error:
            self._note_failure(entry, error)
            return
        self.cache.works[entry.key] = Reserved(entry.manifest)
        _LOG.info("space_reserved", model=entry.id, revision=entry.revision, need_bytes=need)

    def _take_room(self, entry: Entry, manifest: Manifest, limit: int, keep: list[Manifest] | None) -> int:
        """Reserve space for the missing bytes and return how many there are.

        If they do not fit and `keep` is given, unfinished files that no manifest in `keep` needs are dropped first.

        Raises:
            InsufficientStorage: They do not fit.
            StoreFailure: The store's volume is refused, or cannot be read.
        """
        need = self.store.missing_bytes(manifest)
        need += self.store.overhead_bytes(manifest, entry.id) if limit else 0
        if need and (why := self.volume.why_refused()):
            raise StoreFailure(why)
        floor = self.volume.floor_bytes(self.store.disk_size())
        try:
            self.store.reserve(reservation_of(entry.key), need, limit, floor)
        except InsufficientStorage:
            if keep is None:
                raise
            self.store.drop_unreferenced(keep)
            self.store.reserve(reservation_of(entry.key), need, limit, floor)
        return need

    def _wait_for_space(self, entry: Entry, error: InsufficientStorage) -> None:
        self._note_failure(entry, error)
        self.cache.failures[entry.key] = replace(self.cache.failures[entry.key], due_s=WHEN_SPACE_CHANGES_S)

    def _start(self, entry: Entry, *, repair: bool) -> None:
        manifest = self.cache.manifests[entry.key]
        self.cache.works[entry.key] = Fetching(entry.manifest)
        stop = self._stops[entry.key] = threading.Event()
        self._begin(entry, partial(self._download, entry, manifest, stop, repair=repair))

    async def _download(self, entry: Entry, manifest: Manifest, stop: threading.Event, *, repair: bool) -> None:
        log = _LOG.bind(model=entry.id, revision=entry.revision)
        kind, ending = REPAIR if repair else DOWNLOAD, Ending(STOPPED)
        progress = self.activity.start(entry.key, entry.uri, kind)
        mends = self.cache.held.get(entry.key) if repair else None
        log.info("repair_started" if repair else "download_started", size_bytes=manifest.size_bytes)
        at_controller = True
        try:
            granted = await self.api.credentials(entry.id, entry.revision)
            at_controller = False
            snapshot, moved = await self._in_thread(
                self.downloader.download, entry, manifest, granted, mends, progress, stop
            )
        except Stopped:
            log.info("download_stopped", done_bytes=progress.done)
            if why := self._halts.get(entry.key):
                ending = Ending(FAILED, why.reason)
                self._wait_for_space(entry, why)
        except LarderError as error:
            ending = Ending(FAILED, error.reason)
            self._note_failure(entry, error, passing=at_controller)
        except Exception:
            ending = Ending(FAILED, InternalError.__name__)
            raise
        else:
            ending = Ending(COMPLETE)
            self.cache.take_arrived(entry.key, snapshot)
            self.cache.disk_changes += 1
            self.cache.failures.pop(entry.key, None)
            self.cache.manifests.pop(entry.key, None)
            log.info("snapshot_complete", moved_bytes=moved, verified=snapshot.verified)
        finally:
            stop.set()  # cancelling the task does not stop its thread
            self.activity.end(entry.key, kind, ending)
            self._stops.pop(entry.key, None)
            self._halts.pop(entry.key, None)
            await self._release(entry.key)  # before the work ends: the next reservation has the same name
            self.cache.works.pop(entry.key, None)

    def _stop(self, key: Key) -> None:
        """Stop a work, unless it has ended since the decision."""
        match self.cache.works.get(key):
            case Fetching() as work:
                self.cache.works[key] = replace(work, stopping=True)
                if stop := self._stops.get(key):
                    stop.set()
            case Preparing():
                self.cache.works.pop(key)
                if task := self._tasks.get(key):
                    task.cancel()

    async def _forget(self, key: Key) -> None:
        self.cache.works.pop(key, None)
        await self._release(key)

    async def _release(self, key: Key) -> None:
        await self._in_thread(self.store.release, reservation_of(key))
        self.cache.retry_shortages(self.clock())

    async def _remove(self, action: Remove) -> None:
        entry, log = action.entry, _LOG.bind(model=action.entry.id, revision=action.entry.revision)
        loop, sizes = asyncio.get_running_loop(), list[int]()

        def freed(size_bytes: int) -> None:
            sizes.append(size_bytes)
            loop.call_soon_threadsafe(self.activity.free, entry.key, size_bytes)

        try:
            await confirm_removal(self.node, self.cache.node.uid, action)
            self.cache.disk_changes += 1
            self.activity.removals[entry.key] = Removal(self._size_of(entry.key))
            log.info("removal_started")
            await self._in_thread(self.store.set_aside_and_remove, entry.id, entry.revision, freed)
            await self._discard(entry)
        except LarderError as error:
            self.look_at_node()
            self.cache.works.pop(entry.key, None)
            self._note_failure(entry, error, passing=True)
        else:
            self.cache.take_held({key: kept for key, kept in self.cache.held.items() if key != entry.key})
            self.cache.works[entry.key] = Removed()
            self.activity.removed += 1
            self.cache.retry_shortages(self.clock())
            log.info("snapshot_removed", freed_bytes=sum(sizes))
        finally:
            self.activity.removals.pop(entry.key, None)
            self.cache.disk_changes += 1

    def _size_of(self, key: Key) -> int:
        """Return a snapshot's size in bytes, each content counted once; 0 if there is none."""
        held = self.cache.held.get(key)
        return sum(contents_of([held]).values()) if held else 0

    async def _discard(self, entry: Entry) -> None:
        """Drop what an unfinished download left, unless a running download shares any of it."""
        manifest = self.cache.manifests.pop(entry.key, None)
        if manifest is None:
            return
        running = (self.cache.manifests[key] for key in self._stops)
        if all(distinct_files(manifest).keys().isdisjoint(distinct_files(m)) for m in running):
            await self._in_thread(self.store.discard, manifest)

    def _skip(self, entry: Entry) -> None:
        self.cache.skipped.add(entry.key)
        _LOG.info(f"Skipping PVC storage type for model {entry.id}", model=entry.id, node=self.node.name)

    async def _break_off(self, action: Action, error: Exception) -> None:
        """Count an internal error against the entry or the labels it happened to."""
        doing = type(action).__name__
        match action:
            case ChangeLabels():
                self.activity.internal_errors.note(doing, error)
                self.labeller.put_off(InternalError.__name__, f"{type(error).__name__}: {error}")
            case Inspect():
                self.activity.internal_errors.note(doing, error)
            case Stop(key) | Forget(key):
                await self._fail(doing, key, error)
            case Prepare(entry) | Reserve(entry) | Start(entry) | Remove(entry) | Skip(entry):
                await self._fail(doing, entry.key, error)
            case _:
                assert_never(action)

    async def _fail(self, doing: str, key: Key, error: Exception) -> None:
        """Give up an entry's current work; it is retried later if still wanted."""
        self.activity.internal_errors.note(doing, error, model=key[0], revision=key[1], node=self.node.name)
        words = f"{doing} failed with {type(error).__name__}: {error}; report it with the agent's log"
        for entry in self.cache.entries_of(key):
            self._note_failure(entry, InternalError(words))
        if key not in self._tasks:
            self.cache.works.pop(key, None)
            await self._release(key)

    def _begin(self, entry: Entry, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self.jobs.create_task(self._guarded(entry.key, type(self.cache.works[entry.key]).__name__, job))
        self._tasks[entry.key] = task
        task.add_done_callback(lambda ended: self._ended(entry.key, ended))

    async def _guarded(self, key: Key, doing: str, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await job()
        except Exception as error:  # noqa: BLE001 - an internal error in one model must not end the others
            self._tasks.pop(key, None)
            await self._fail(doing, key, error)

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        self.look_at_disk()
        self.wake()

    def _note_failure(self, entry: Entry, error: LarderError, *, passing: bool = False) -> None:
        before = self.cache.failures.get(entry.key)
        failure = self.retries.failure(entry, error, before, self.clock(), passing=passing)
        self.cache.failures[entry.key] = failure
        self.activity.failures[error.reason] += 1
        if before is None or is_news(before.trouble, failure.trouble):
            again_s = round(failure.due_s - self.clock(), 1)
            _LOG.warning(
                "entry_failed", model=entry.id, revision=entry.revision, again_s=again_s,
                reason=error.reason, message=str(error), node=self.node.name,
            )  # fmt: skip

    def _in_thread(self, work: Callable[..., T], *arguments: object) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)
