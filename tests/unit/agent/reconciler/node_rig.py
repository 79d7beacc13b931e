"""One node without servers: the agent's real loop, cache, executor and store; the test decides what happens next.

Nothing runs by itself: the answers of both APIs wait in `Answers`, what goes to threads waits in `StepThreads`, and the
clock stands. So every interleaving can be had, and the same one again.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from agent.controller_client import ControllerClient
from agent.reconciler.activity import Activity
from agent.reconciler.downloader import Downloader
from agent.reconciler.downloads import Downloads
from agent.reconciler.executor import ActionExecutor
from agent.reconciler.failures import FailureRecorder
from agent.reconciler.labeller import Labeller
from agent.reconciler.loop import Reconciler
from agent.reconciler.metadata_reader import SnapshotMetadataReader
from agent.reconciler.own_node import OwnNode
from agent.reconciler.removals import Removals
from agent.reconciler.reservations import Reservations
from agent.reconciler.scanner import Scanner
from agent.reconciler.state_cache import StateCache
from agent.reconciler.status_writer import StatusWriter
from agent.reconciler.taint_remover import TaintRemover
from agent.store.disk import RealDisk
from agent.store.floor import StoreVolume, parse_floor
from agent.store.store import Store
from agent.transfer.rate_limit import RateLimiter
from shared.api.model_node import ModelNode
from shared.api.wire import CredentialsResponse
from shared.errors import NotGranted, Unreachable
from shared.internal_errors import keep_running
from shared.kube.errors import NotFound
from shared.kube.errors import Unreachable as KubeUnreachable
from shared.kube.transport import Kube
from shared.manifest import Manifest
from shared.sources.settings import SourceSettings

NODE_UID = "node-1"
_TURNS = 60  # more than the longest chain of callbacks here
T = TypeVar("T")


class StepThreads(Executor):
    """An executor that runs nothing until the test calls `run`."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self, index: int) -> None:
        """Run one of the waiting jobs."""
        future, work = self.waiting.pop(index % len(self.waiting))
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        else:
            future.set_result(result)


class Answers:
    """Calls to the APIs that wait for the test to answer them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[asyncio.Future[None], type[Exception]]] = []

    async def to(self, answer: Callable[[], T], failure: type[Exception]) -> T:
        """Wait for the test, then answer, or fail as it says; `failure` is how such a call may fail."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((waiter, failure))
        await waiter
        return answer()

    def give(self, index: int, error: Exception | None, *, fails: bool) -> None:
        """Answer one call, or fail it with `error`, or else with the failure that it allows."""
        waiter, failure = self.waiting.pop(index % len(self.waiting))
        if waiter.done():
            return
        if fails:
            error = failure("as the test says")
        if error:
            waiter.set_exception(error)
        else:
            waiter.set_result(None)


class Cluster:
    """The API server: one Node and its ModelNode."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.labels: dict[str, str] = {}
        self.model_node: ModelNode | None = None

    async def request(self, method: str, path: str, **sent: Any) -> bytes:
        return await self._answers.to(lambda: self._answer(method, path, sent.get("body")), KubeUnreachable)

    def _answer(self, method: str, path: str, body: Any) -> bytes:
        if not path.startswith("/api/v1/nodes/"):
            if self.model_node is None:
                raise NotFound(f"{path} is not there")
            return msgspec.json.encode(self.model_node)
        if method == "PATCH":
            merged = {**self.labels, **body["metadata"]["labels"]}
            self.labels = {k: v for k, v in merged.items() if v is not None}
        return msgspec.json.encode({"metadata": {"name": "n1", "uid": NODE_UID, "labels": self.labels}})


class Controller:
    """The controller's API: manifests by digest, no credentials."""

    def __init__(self, answers: Answers, manifests: Mapping[str, Manifest]) -> None:
        self._answers, self._manifests = answers, manifests

    async def manifest(self, digest: str) -> Manifest:
        return await self._answers.to(lambda: self._manifests[digest], NotGranted)

    async def credentials(self, identity: str, revision: str) -> CredentialsResponse:
        del identity, revision
        return await self._answers.to(lambda: CredentialsResponse(()), Unreachable)


class QuickDisk(RealDisk):
    """A disk without syncs, because no test here loses power; `fault` makes the next `free_bytes` raise."""

    fault: Exception | None = None

    def fsync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_all(self, descriptor: int) -> None:
        """Do nothing."""

    def free_bytes(self, path: Path) -> int:
        """Return the free bytes, or raise `fault` once."""
        if error := self.fault:
            self.fault = None
            raise error
        return super().free_bytes(path)


@dataclass
class NodeRig:
    """An agent on one node, one step at a time."""

    folder: Path
    manifests: Mapping[str, Manifest]
    slots: int = 2
    now_s: float = 100.0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    threads: StepThreads = field(default_factory=StepThreads)
    answers: Answers = field(default_factory=Answers)
    disk: QuickDisk = field(default_factory=QuickDisk)
    activity: Activity = field(default_factory=Activity)
    cache: StateCache = field(default_factory=StateCache)

    def __post_init__(self) -> None:
        self.store = Store.open(self.folder / "store", disk=self.disk)
        self.cluster = Cluster(self.answers)
        self._started = asyncio.Event()
        self.main = self.loop.create_task(self._run())
        self.turn()
        self.rest()

    async def _run(self) -> None:
        kube = cast("Kube", self.cluster)
        node = OwnNode(kube, "n1")
        volume = StoreVolume(self.store.root, on_root_disk=False, floor=parse_floor("0"))
        scanner = Scanner(
            self.cache, self.store, volume, self.activity, self.threads, 3600, None, self.clock, sleep=_no_sleep
        )
        self.reconciler = Reconciler(
            cache=self.cache, store=self.store, node=node, activity=self.activity,
            status_writer=StatusWriter(kube, "n1"),
            threads=self.threads, scanner=scanner, version="0", slots=self.slots, node_interval_s=3600,
            clock=self.clock, set_rate=lambda _: None, sleep=_no_sleep,
        )  # fmt: skip
        sources = SourceSettings(local_roots=(str(self.folder),))
        async with asyncio.TaskGroup() as jobs:
            api = cast("ControllerClient", Controller(self.answers, self.manifests))
            errors = self.activity.internal_errors
            failures = FailureRecorder(self.cache, self.activity, node.name, self.clock)
            reservations = Reservations(self.cache, self.store, volume, failures, self.threads, self.clock)
            downloads = Downloads(
                self.cache, api, Downloader(self.store, sources, RateLimiter(), 1), self.activity, failures,
                reservations, self.threads,
            )  # fmt: skip
            self.executor = ActionExecutor(
                cache=self.cache, node_name=node.name, api=api,
                labeller=Labeller(self.cache, node, self.clock, self.reconciler.request_node_read),
                taint_remover=TaintRemover(self.cache, node, self.clock, self.reconciler.request_node_read),
                reservations=reservations, downloads=downloads,
                removals=Removals(
                    self.cache, self.store, node, api, self.activity, failures, downloads, self.threads, self.clock,
                    self.reconciler.request_node_read,
                ),
                metadata_reader=SnapshotMetadataReader(
                    self.cache, self.threads, jobs, errors, self.reconciler.wake, self.clock
                ),
                failures=failures, errors=errors, jobs=jobs, wake=self.reconciler.wake,
                request_scan=scanner.request_scan, clock=self.clock,
            )  # fmt: skip
            await self.reconciler.prepare()
            jobs.create_task(keep_running("scanner", lambda: scanner.run(self.reconciler.wake), errors, _no_sleep))
            jobs.create_task(keep_running("node", self.reconciler.watch_node, errors, _no_sleep))
            self.reconciler.mark_synced()
            await keep_running("loop", lambda: self.reconciler.run(self.executor), errors, _no_sleep)

    def clock(self) -> float:
        """Return the time, in seconds, which only the test advances."""
        return self.now_s

    def turn(self) -> None:
        """Run the event loop until the agent waits for the test."""
        self.loop.run_until_complete(_yield_often())

    def deliver(self) -> None:
        """Deliver the present ModelNode to the agent."""
        self.reconciler.set_model_node(self.cluster.model_node)
        self.turn()

    def work(self, index: int) -> None:
        """Run one of the jobs in threads to its end."""
        self.threads.run(index)
        self.turn()

    def answer(self, index: int, error: Exception | None = None, *, fails: bool = False) -> None:
        """Answer one of the calls, or fail it."""
        self.answers.give(index, error, fails=fails)
        self.turn()

    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.now_s += seconds
        self.reconciler.wake()
        self.turn()

    def rest(self) -> None:
        """Let all jobs and calls succeed until nothing is left to do."""
        for _ in range(2000):
            if self.threads.waiting:
                self.work(0)
            elif self.answers.waiting:
                self.answer(0)
            else:
                return
        raise AssertionError("the agent does not come to rest")

    def close(self) -> None:
        """Stop the agent."""
        self.main.cancel()
        self.turn()
        self.loop.close()
        self.store.close()


async def _no_sleep(_: float) -> None:
    await asyncio.sleep(0)


async def _yield_often() -> None:
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(_TURNS):
        await asyncio.sleep(0)
        if not ready:
            return
