"""Has models read beside the queue, for a source may be slow."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from controller.aside import run_aside
from controller.credentials import Secrets
from controller.keys import ModelKey
from controller.manifests import Manifests
from controller.metadata.remote import Allowance, failed, read_remote
from controller.placement.demand import Demand, Resolution
from shared.errors import LarderError, SourceChanged
from shared.handover import Reading
from shared.manifest import Manifest, decode_manifest
from shared.sources.port import Credentials
from shared.sources.registry import open_source
from shared.sources.settings import SourceSettings
from shared.uri import parse_uri

_AT_ONE_TIME = 2  # each may take 64 MiB
_SETTLE_S = 600.0  # where a result does not stay in a status, as without its field in an old definition, no loop begins
_TIMEOUT_S = 10.0  # of one answer: threads that wait for one hold up the end of the program
_log = structlog.get_logger()


@dataclass(slots=True)
class MetadataReader:
    """Reads a few models at one time; `on_done` gets the model that has a result, which stays until it is recorded."""

    secrets: Secrets
    manifests: Manifests
    settings: SourceSettings
    clock: Callable[[], float]
    on_done: Callable[[ModelKey], None]
    _found: dict[ModelKey, tuple[str, Reading]] = field(default_factory=dict, init=False)
    _ended: dict[ModelKey, tuple[str, float]] = field(default_factory=dict, init=False)
    _running: dict[tuple[ModelKey, str], asyncio.Task[None]] = field(default_factory=dict, init=False)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONE_TIME), init=False)

    def __post_init__(self) -> None:
        self.settings = dataclasses.replace(
            self.settings,
            connect_timeout_s=min(self.settings.connect_timeout_s, _TIMEOUT_S),
            read_timeout_s=min(self.settings.read_timeout_s, _TIMEOUT_S),
        )

    def found(self, key: ModelKey, identity: str) -> Reading | None:
        """Return the result of this reading of a model, until it is recorded."""
        known = self._found.get(key)
        return known[1] if known is not None and known[0] == identity else None

    def recorded(self, key: ModelKey) -> None:
        """Drop a result: from now on the object has it."""
        self._found.pop(key, None)

    def forget(self, key: ModelKey) -> None:
        """Drop what is known of an object that is gone."""
        self._found.pop(key, None)
        self._ended.pop(key, None)

    def start(self, key: ModelKey, demand: Demand, resolution: Resolution, identity: str) -> None:
        """Read a model unless that is under way, or was done a moment ago."""
        run, (last, ended) = (key, identity), self._ended.get(key, ("", 0.0))
        settling = last == identity and self.clock() - ended < _SETTLE_S
        if run not in self._running and not settling:
            task = self._running[run] = asyncio.create_task(self._run(key, demand, resolution, identity))
            task.add_done_callback(lambda _: self._done(run))

    async def stop(self) -> None:
        """End what is under way and drop what was not recorded: another replica may lead from now on."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._found.clear()
        self._ended.clear()

    def _done(self, run: tuple[ModelKey, str]) -> None:
        self._running.pop(run, None)
        if self.found(*run) is not None:
            self.on_done(run[0])

    async def _run(self, key: ModelKey, demand: Demand, resolution: Resolution, identity: str) -> None:
        async with self._slots:
            reading = await self._reading(demand, resolution)
        tell = _log.warning if reading.reason else _log.info
        tell("metadata_read", model=demand.id, uri=demand.uri, revision=resolution.revision, reason=reading.reason)
        self._found[key], self._ended[key] = (identity, reading), (identity, self.clock())

    async def _reading(self, demand: Demand, resolution: Resolution) -> Reading:
        allowance = Allowance(self.clock)
        left_out = resolution.left_out.files if resolution.left_out else 0
        try:
            credentials = await self.secrets.credentials_of(demand)
            manifest = await self._manifest(resolution)
            return await run_aside(self._read, manifest, credentials, left_out, allowance)
        except LarderError as error:
            return failed(error.reason, str(error))
        except Exception as error:  # noqa: BLE001 - what a model's files do concerns that model alone
            _log.exception("metadata_unreadable", model=demand.id, uri=demand.uri)
            return failed("MetadataFailed", f"{type(error).__name__}; the controller's log has more")
        finally:
            allowance.end()

    async def _manifest(self, resolution: Resolution) -> Manifest:
        manifest = decode_manifest(await self.manifests.find(resolution.manifest), resolution.manifest)
        if manifest.revision != resolution.revision:
            raise SourceChanged(f"the list of files {resolution.manifest} is of another revision; ask for a refresh")
        return manifest

    def _read(self, manifest: Manifest, credentials: Credentials, left_out: int, allowance: Allowance) -> Reading:
        source = open_source(parse_uri(manifest.uri), credentials, self.settings)
        try:
            return read_remote(source, manifest, left_out, allowance)
        finally:
            source.close()
