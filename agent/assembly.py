"""The agent's objects and how they are connected."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agent.controller_client import ControllerClient
from agent.linux.cgroup import memory_limit_bytes
from agent.linux.inotify import InotifyWatch
from agent.reconciler.activity import Activity
from agent.reconciler.decide import MAX_REMOVING
from agent.reconciler.downloader import Downloader
from agent.reconciler.downloads import Downloads
from agent.reconciler.executor import ActionExecutor
from agent.reconciler.failures import FailureRecorder
from agent.reconciler.file_lists import FileLists, capacity_bytes
from agent.reconciler.labeller import Labeller
from agent.reconciler.loop import Reconciler
from agent.reconciler.metadata_reader import SnapshotMetadataReader
from agent.reconciler.observation import StartupTaintRule, StartupTaintState
from agent.reconciler.own_node import OwnNode
from agent.reconciler.removals import Removals
from agent.reconciler.reservations import Reservations
from agent.reconciler.scanner import Scanner
from agent.reconciler.state_cache import StateCache
from agent.reconciler.status_writer import StatusWriter
from agent.reconciler.taint_remover import TaintRemover
from agent.settings import AgentSettings
from agent.store.floor import StoreVolume, lies_on_root_disk, parse_floor
from agent.store.store import Store
from agent.transfer.rate_limit import RateLimiter
from shared import __version__
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings

_OTHER_THREADS = 5  # threads besides those of downloads and removals


@dataclass(slots=True)
class AgentParts:
    """The objects that an agent's parts share; builds the reconciler and its executor from them."""

    settings: AgentSettings
    sources: SourceSettings
    store: Store
    kube: Kube
    clock: Callable[[], float]
    threads: ThreadPoolExecutor = field(init=False)
    api: ControllerClient = field(init=False)
    volume: StoreVolume = field(init=False)
    activity: Activity = field(default_factory=Activity, init=False)
    rate_limiter: RateLimiter = field(default_factory=RateLimiter, init=False)
    cache: StateCache = field(default_factory=StateCache, init=False)

    def __post_init__(self) -> None:
        self.threads = ThreadPoolExecutor(self.settings.downloads + MAX_REMOVING + _OTHER_THREADS, "larder")
        self.volume = StoreVolume(
            self.store.root,
            on_root_disk=lies_on_root_disk(self.store.root),
            floor=parse_floor(self.settings.floor),
            refuses_root_disk=self.settings.refuse_root_disk,
        )
        lists_bytes = self.settings.file_list_bytes or capacity_bytes(memory_limit_bytes())
        self.cache.file_lists = FileLists(lists_bytes)
        rule = StartupTaintRule(
            self.settings.startup_taint_priority,
            self.settings.startup_taint_failure_seconds,
            self.settings.startup_taint_namespaced_seconds,
        )
        self.cache.startup_taint = StartupTaintState(rule=rule)
        self.api = ControllerClient(self.settings.api_url, self.settings.token_file, self.settings.api_ca)

    def reconciler(self, node: OwnNode, watch: InotifyWatch | None) -> Reconciler:
        """Return the reconciler, with the scanner that it asks for the state of the disk."""
        scanner = Scanner(
            cache=self.cache,
            store=self.store,
            volume=self.volume,
            activity=self.activity,
            threads=self.threads,
            scan_interval_s=self.settings.scan_seconds,
            watch=watch,
            clock=self.clock,
        )
        return Reconciler(
            cache=self.cache,
            store=self.store,
            node=node,
            activity=self.activity,
            status_writer=StatusWriter(self.kube, self.settings.node_name),
            threads=self.threads,
            scanner=scanner,
            version=__version__,
            slots=self.settings.downloads,
            node_interval_s=self.settings.node_seconds,
            clock=self.clock,
            set_rate=self.rate_limiter.set_rate,
        )

    def executor(self, reconciler: Reconciler, node: OwnNode, jobs: asyncio.TaskGroup) -> ActionExecutor:
        """Return the executor of the reconciler's actions; its tasks run in `jobs`."""
        cache, store, activity, threads, clock = self.cache, self.store, self.activity, self.threads, self.clock
        failures = FailureRecorder(cache, activity, node.name, clock)
        reservations = Reservations(cache, store, self.volume, failures, threads, clock)
        downloader = Downloader(store, self.sources, self.rate_limiter, self.settings.connections, cache.file_lists)
        downloads = Downloads(cache, self.api, downloader, activity, failures, reservations, threads)
        return ActionExecutor(
            cache=cache,
            node_name=node.name,
            api=self.api,
            labeller=Labeller(cache, node, clock, reconciler.request_node_read),
            taint_remover=TaintRemover(cache, node, clock, reconciler.request_node_read),
            reservations=reservations,
            downloads=downloads,
            removals=Removals(
                cache,
                store,
                node,
                self.api,
                activity,
                failures,
                downloads,
                threads,
                clock,
                reconciler.request_node_read,
            ),
            metadata_reader=SnapshotMetadataReader(
                cache, threads, jobs, activity.internal_errors, reconciler.wake, clock
            ),
            failures=failures,
            errors=activity.internal_errors,
            jobs=jobs,
            wake=reconciler.wake,
            request_scan=reconciler.scanner.request_scan,
            clock=clock,
        )
