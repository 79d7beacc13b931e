"""Builds the driver's parts, runs them together and stops them together."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from agent.dra.cdi_edits import PreparedDevice
from agent.dra.cdi_files import CdiFiles
from agent.dra.claims import DeviceAllocator, PreparedClaims
from agent.dra.devices import DAMAGED_TAINT, LEAVING_TAINT, ModelDevice, devices_of
from agent.dra.dra_support import DraSupport
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.kubelet_server import DeviceHealth, KubeletServer
from agent.dra.metrics import DraMetrics
from agent.dra.observe import PreparationObserver, entries_of
from agent.dra.publisher import SlicePublisher
from agent.dra.settings import DraSettings, parse_allowed
from agent.dra.slices import PoolOwner
from agent.dra.snapshots import SnapshotScanner
from agent.dra.status_file import READY, StatusFile
from shared.api.model_node import PATH, ModelNode
from shared.backoff import Backoff
from shared.dra import DRIVER, FETCH_DEVICE, SLICES, slices_selector
from shared.errors import LarderError
from shared.internal_errors import InternalErrors, keep_running
from shared.kube.cache import Cache
from shared.kube.collection import decode
from shared.kube.objects import Object
from shared.kube.reflector import Reflector, ReflectorTiming
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_TIMING = ReflectorTiming(backoff=Backoff(first_s=0.1, cap_s=5))
_RETRY = Backoff(first_s=0.5, cap_s=30)
_RESTORE = Backoff(first_s=1, cap_s=300)  # each attempt lists the claims of the cluster
_SETTLE_S = 0.2  # changes come in bursts
_TOUCH_S = 10.0
_PROBLEMS = {LEAVING_TAINT: "the model is being removed from this node", DAMAGED_TAINT: "files are damaged"}


@dataclass(slots=True)
class Driver:
    """One driver; `run` ends when `stop` is set."""

    settings: DraSettings
    kube: Kube
    allocator: DeviceAllocator
    report: Callable[[str], Awaitable[None]]
    errors: InternalErrors = field(default_factory=InternalErrors)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _slices_changed: bool = field(default=True, init=False)
    _model_node: ModelNode | None = field(default=None, init=False)
    _devices: tuple[ModelDevice, ...] = field(default=(), init=False)
    _owner: PoolOwner = field(default=PoolOwner("", ""), init=False)
    _status: StatusFile = field(init=False)
    _server: KubeletServer = field(init=False)
    _published: tuple[ModelDevice, ...] = field(default=(), init=False)
    _claims: PreparedClaims = field(init=False)
    _metrics: DraMetrics = field(init=False)

    def __post_init__(self) -> None:
        self._status = StatusFile(self.settings.kubelet / "plugins" / DRIVER / "status")
        self._metrics = DraMetrics(lambda: len(CdiFiles(self.settings.cdi).uids()), lambda: self._published)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve kubelet and publish devices until `stop` is set; prepared claims stay prepared."""
        threads = ThreadPoolExecutor(1, "larder-dra")
        serving = asyncio.create_task(self._serve(threads))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, claim: KubeletClaim) -> Sequence[PreparedDevice]:
        """Make the devices of a claim available to containers. Raises LarderError."""
        return await self._claims.prepare(claim)

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Undo `prepare`; safe if the claim was never prepared. Raises LarderError."""
        await self._claims.unprepare(claim)

    def health(self) -> Sequence[DeviceHealth]:
        """Return the health of all devices."""
        found = (
            DeviceHealth(self._owner.name, each.model.device, _PROBLEMS.get(each.taint, "")) for each in self._devices
        )
        return (DeviceHealth(self._owner.name, FETCH_DEVICE), *found)

    async def _serve(self, threads: ThreadPoolExecutor) -> None:
        async with asyncio.TaskGroup() as group:
            self._server = KubeletServer(
                self.settings.kubelet,
                self,
                on_registered=self._slices_change,
                on_refused=lambda problem: self._start(group, "report", lambda: self._report(problem)),
                on_answer=self._metrics.answered,
            )
            alive = group.create_task(self._stay_alive())
            if self.settings.listen:
                group.create_task(self._serve_health(self.settings.listen))
            self._owner = await DraSupport(self.kube, self.settings.node_name, self._report).wait()
            scanner = SnapshotScanner(self.settings.root)
            observer = PreparationObserver(self.kube, self._owner.name, self._owner.uid, scanner, threads)
            files = CdiFiles(self.settings.cdi)
            files.drop_unfinished()
            self._claims = PreparedClaims(observer, files, parse_allowed(self.settings.allow), self.allocator)
            self._set_status("waiting until kubelet has registered the driver and the ModelNode is read")
            try:
                await self._server.start()
                await self._work(group, observer)
                await asyncio.Event().wait()
            finally:
                alive.cancel()
                await self._server.stop()

    async def _serve_health(self, listen: str) -> None:
        from agent.dra.health import health_app, serve_health  # noqa: PLC0415 - costs 20 MiB and is off by default

        app = health_app(self._metrics.registry, lambda: self._status.text, self.errors.summary)
        await serve_health(app, listen)

    async def _work(self, group: asyncio.TaskGroup, observer: PreparationObserver) -> None:
        nodes = Reflector(
            self.kube, PATH, ModelNode, Cache(self._set_model_node), self._on_watch_error,
            field_selector=f"metadata.name={self._owner.name}", timing=_TIMING,
        )  # fmt: skip
        slices = Reflector(
            self.kube, SLICES, Object, Cache(self._slices_change), self._on_watch_error,
            field_selector=slices_selector(self._owner.name), timing=_TIMING,
        )  # fmt: skip
        self._start(group, "model_node", nodes.run)
        self._start(group, "slices", slices.run)
        self._start(group, "restore", self._restore)
        self._start(group, "publish", lambda: self._publish(observer, nodes.synced))

    def _start(self, group: asyncio.TaskGroup, part: str, run: Callable[[], Awaitable[None]]) -> None:
        group.create_task(keep_running(part, run, self.errors))

    async def _publish(self, observer: PreparationObserver, synced: asyncio.Event) -> None:
        """Publish on each change, once kubelet has registered the driver: the first slice already attracts pods."""
        publisher, failures = SlicePublisher(self.kube, self._owner), 0
        self._slices_changed = True  # an unforeseen error may have interrupted the last attempt
        await synced.wait()
        while True:
            try:
                await self._server.registered.wait()
                if self._slices_changed or not self._knows_node():
                    await self._read_node_again(observer, publisher)
                held = await observer.scan()
                before, entries = self._devices, entries_of(self._model_node, self._owner.uid)
                self._devices = devices_of(held.values(), entries)
                if self._slices_changed or before != self._devices:
                    self._slices_changed = False
                    await publisher.publish(self._devices)
                    self._published = publisher.listed(self._devices)
                    if self._server.registered.is_set():  # kubelet may have refused the driver in the meantime
                        self._set_status(READY)
                failures = 0
            except LarderError as error:
                failures, self._slices_changed = failures + 1, True
                self._set_status(str(error))
                delay_s = _RETRY.delay_s(failures)
                _LOG.warning("devices_not_published", message=str(error), again_s=round(delay_s, 1))
                await asyncio.sleep(delay_s)
                continue
            await self._wait_for_change()

    def _knows_node(self) -> bool:
        """Return whether the ModelNode belongs to the known Node; if not, the Node may have been created again."""
        return self._model_node is None or self._model_node.may_belong_to(self._owner.uid)

    async def _read_node_again(self, observer: PreparationObserver, publisher: SlicePublisher) -> None:
        """Adopt the uid of a Node that was created again under the same name. Raises KubeError."""
        node = decode(await self.kube.request("GET", f"/api/v1/nodes/{self._owner.name}"), Object)
        if node.metadata.uid != self._owner.uid:
            _LOG.info("node_replaced", node=self._owner.name, uid=node.metadata.uid)
            self._owner = publisher.owner = PoolOwner(self._owner.name, node.metadata.uid)
            observer.node_uid, self._slices_changed = self._owner.uid, True

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(self.settings.scan_seconds):
                await self._changed.wait()
            await asyncio.sleep(_SETTLE_S)
        except TimeoutError:
            pass
        self._changed.clear()

    async def _restore(self) -> None:
        """Restore the files of claims at startup and whenever one has disappeared."""
        clock, failures, due_s = asyncio.get_running_loop().time, 0, -math.inf
        while True:
            if clock() >= due_s or self._claims.lost():
                failures = 0 if await self._try_restore() else failures + 1
                due_s = clock() + _RESTORE.delay_s(failures) if failures else math.inf
            await asyncio.sleep(min(self.settings.scan_seconds, max(0.1, due_s - clock())))

    async def _try_restore(self) -> bool:
        try:
            return await self._claims.restore()
        except LarderError as error:
            _LOG.warning("resource_claims_not_restored", message=str(error))
            return False

    async def _stay_alive(self) -> None:
        while True:
            self._status.touch()
            self._server.check()
            await asyncio.sleep(_TOUCH_S)

    async def _report(self, problem: str) -> None:
        if problem and problem != self._status.text:  # kubelet retries and refuses repeatedly
            _LOG.error("devices_not_possible", node=self.settings.node_name, message=problem)
            self._set_status(problem)
            await self.report(problem)

    def _set_status(self, text: str) -> None:
        if text != self._status.text:
            self._status.set(text)

    def _slices_change(self, _before: Object | None = None, _after: Object | None = None) -> None:
        self._slices_changed = True
        self._changed.set()

    def _set_model_node(self, _before: ModelNode | None, after: ModelNode | None) -> None:
        self._model_node = after
        self._changed.set()

    def _on_watch_error(self, error: Exception, delay_s: float) -> None:
        _LOG.warning("watch_interrupted", message=str(error), again_s=round(delay_s, 1))
