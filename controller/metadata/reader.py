"""Reads models' metadata outside the queue, because sources may be slow."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from controller.metadata.read_request import COMMAND, SourceReadRequest
from controller.placement.demand import Demand, Resolution
from controller.sources.credentials import Secrets
from controller.sources.fair_slots import FairSlots
from controller.sources.manifests import Manifests
from controller.state.keys import ModelKey
from shared.daemon_thread import run_in_daemon_thread
from shared.errors import LarderError
from shared.metadata.reading.attempts import FAILED
from shared.metadata.reading.process import Child
from shared.metadata.reading.termination_message import Reading, failed
from shared.sources.settings import SourceSettings

_MAX_CONCURRENT = 2  # children, each of at most 320 MiB: more than two would exceed the container's memory
_SETTLE_S = 300.0  # avoids a loop if a status drops the result, as with an old definition without the field
_TIMEOUT_S = 10.0  # per response: blocked threads delay the exit of the program
_log = structlog.get_logger()


@dataclass(slots=True)
class MetadataReader:
    """Reads a few models concurrently; `on_done` receives the key after a result, which stays until it is recorded."""

    secrets: Secrets
    manifests: Manifests
    settings: SourceSettings
    clock: Callable[[], float]
    on_done: Callable[[ModelKey], None]
    _results: dict[ModelKey, tuple[str, Reading]] = field(default_factory=dict, init=False)
    _ended: dict[ModelKey, tuple[str, float]] = field(default_factory=dict, init=False)
    _running: dict[ModelKey, tuple[str, asyncio.Task[None]]] = field(default_factory=dict, init=False)
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = FairSlots(_MAX_CONCURRENT, self.clock)
        self.settings = dataclasses.replace(
            self.settings,
            connect_timeout_s=min(self.settings.connect_timeout_s, _TIMEOUT_S),
            read_timeout_s=min(self.settings.read_timeout_s, _TIMEOUT_S),
        )

    def result_of(self, key: ModelKey, identity: str) -> Reading | None:
        """Return the unrecorded result of this reading of a model, or None."""
        result = self._results.get(key)
        return result[1] if result is not None and result[0] == identity else None

    def discard(self, key: ModelKey) -> None:
        """Drop a result that the object has recorded."""
        self._results.pop(key, None)

    def forget(self, key: ModelKey) -> None:
        """Drop the state of a deleted object, and end its reading."""
        self._cancel(key)
        self._results.pop(key, None)
        self._ended.pop(key, None)

    def start(self, key: ModelKey, demand: Demand, resolution: Resolution, identity: str) -> None:
        """Read a model, unless it is being read or was read within the last minutes; end a reading of other files."""
        (running, _), (last, ended) = self._running.get(key, ("", None)), self._ended.get(key, ("", 0.0))
        settling = last == identity and self.clock() - ended < _SETTLE_S
        if running != identity and not settling:
            self._cancel(key)
            task = asyncio.create_task(self._run(key, demand, resolution, identity))
            self._running[key] = identity, task
            task.add_done_callback(lambda done: self._done(key, identity, done))

    async def stop(self) -> None:
        """Cancel running readings and drop unrecorded results, because another replica may lead from now on."""
        running = [task for _, task in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._results.clear()
        self._ended.clear()

    def _cancel(self, key: ModelKey) -> None:
        """End the reading of a model; otherwise a tenant who changes models fast could queue readings without limit."""
        _, task = self._running.pop(key, ("", None))
        if task is not None:
            task.cancel()

    def _done(self, key: ModelKey, identity: str, task: asyncio.Task[None]) -> None:
        if self._running.get(key, ("", None))[1] is task:
            del self._running[key]
        if self.result_of(key, identity) is not None:
            self.on_done(key)

    async def _run(self, key: ModelKey, demand: Demand, resolution: Resolution, identity: str) -> None:
        async with self._slots.slot(demand.namespace):
            reading = await self._reading(demand, resolution)
        log = _log.warning if reading.reason else _log.info
        log("metadata_read", model=demand.id, uri=demand.uri, revision=resolution.revision, reason=reading.reason)
        self._results[key], self._ended[key] = (identity, reading), (identity, self.clock())

    async def _reading(self, demand: Demand, resolution: Resolution) -> Reading:
        child = Child(COMMAND)
        try:
            request = SourceReadRequest(
                manifest=await self.manifests.find(resolution.manifest),
                digest=resolution.manifest,
                revision=resolution.revision,
                left_out=resolution.left_out.files if resolution.left_out else 0,
                credentials=await self.secrets.credentials_of(demand),
                settings=self.settings,
            )
            return await run_in_daemon_thread(child.read, request)
        except LarderError as error:
            return failed(error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a model's files cause must only affect that model
            _log.exception("metadata_unreadable", model=demand.id, uri=demand.uri)
            return failed(FAILED, f"{type(error).__name__}; the controller's log has more")
        finally:
            child.end()
