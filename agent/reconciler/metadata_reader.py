"""Reads the metadata of unpacked snapshots, one at a time, each in its own process."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import structlog

from agent.metadata.read_request import COMMAND, SnapshotReadRequest
from agent.reconciler.observation import Key
from agent.reconciler.state_cache import StateCache
from shared.api.model_node import Entry
from shared.api.unpacked_metadata import reported
from shared.errors import LarderError
from shared.internal_errors import InternalErrors
from shared.metadata.reading.attempts import (
    FAILED,
    INTERRUPTED,
    count_attempts,
    given_up,
    identity_of_files,
    interruption_wait,
)
from shared.metadata.reading.process import Child
from shared.metadata.reading.termination_message import Reading, failed

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class SnapshotMetadataReader:
    """Reads snapshots' metadata into the cache; a file that crashes the reading process affects nothing else."""

    cache: StateCache
    threads: Executor
    jobs: asyncio.TaskGroup
    errors: InternalErrors
    wake: Callable[[], None]
    clock: Callable[[], float]
    command: Sequence[str] = COMMAND
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    def start(self, entry: Entry) -> None:
        """Start reading the snapshot of an entry, unless it is gone."""
        if (snapshot := self.cache.held.get(entry.key)) is None:
            return
        self.cache.reading_metadata = entry.key
        request = SnapshotReadRequest(folder=str(snapshot.path))
        self._task = self.jobs.create_task(self._run(entry.key, snapshot.manifest_digest, request))

    def stop(self) -> None:
        """Cancel the reading in progress; the next agent starts it again."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, key: Key, manifest: str, request: SnapshotReadRequest) -> None:
        try:
            self._record(key, manifest, await self._read(request))
        except Exception as error:  # noqa: BLE001 - only this model lacks metadata, and the error is counted
            self.errors.note("metadata", error, folder=request.folder)
            self._record(key, manifest, failed(FAILED, f"{type(error).__name__}; the agent's log has more"))
        finally:
            self.cache.reading_metadata = None
            self.wake()

    async def _read(self, request: SnapshotReadRequest) -> Reading:
        child = Child(self.command)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, child.read, request)
        except LarderError as error:
            return failed(INTERRUPTED, str(error))
        finally:
            child.end()

    def _record(self, key: Key, manifest: str, reading: Reading) -> None:
        held = self.cache.held.get(key)
        if held is None or held.damaged or held.manifest_digest != manifest:
            return  # it was read while being removed or damaged
        identity, attempts = identity_of_files(manifest), 0
        before = self.cache.metadata.get(key)
        if reading.reason == INTERRUPTED:
            known = before is not None and before.identity == identity
            attempts = count_attempts(before.reason, before.attempts, INTERRUPTED) if before and known else 1
            self.cache.metadata_due[key] = self.clock() + interruption_wait(identity, attempts).total_seconds()
        reading = given_up(reading, attempts)
        log = _LOG.warning if reading.reason else _LOG.info
        log("metadata_read", model=key[0], revision=key[1], reason=reading.reason, message=reading.message)
        self.cache.metadata[key] = reported(reading, identity, attempts)
