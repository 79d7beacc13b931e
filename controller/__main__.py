"""The controller: settings, then objects, then one group of tasks, one exit path."""

import asyncio
import gc
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import structlog
from fastapi import FastAPI
from prometheus_client import disable_created_metrics

from controller.admission.callers import Callers, InvalidKeysError, KeyFile
from controller.admission.server import admission_router
from controller.admission.settings import AdmissionSettings
from controller.admission.state_catalog import StateCatalog
from controller.agentapi.authenticate import Authenticator
from controller.agentapi.desk import Desk
from controller.agentapi.gate import Gate
from controller.agentapi.leader import ADDRESS_ANNOTATION, Leader
from controller.agentapi.server import AgentApi
from controller.claims.act import ClaimActor
from controller.claims.job import JobSettings
from controller.claims.observe import ClaimObserver
from controller.claims.reconcile import ClaimReconciler
from controller.garbage.collector import GarbageCollector
from controller.garbage.observe import GarbageObserver
from controller.groups.grants import GrantsReconciler
from controller.groups.reconcile import GroupReconciler
from controller.inferenceservices.act import ServiceActor
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.inferenceservices.users import ServiceUsers
from controller.manager.event_handlers import Watcher
from controller.manager.events import Events
from controller.manager.health import health_app
from controller.manager.informers import Follower, follow
from controller.manager.metrics import Metrics
from controller.manager.requests import CountRequests
from controller.manager.state_metrics import Census
from controller.manager.workers import Dispatcher
from controller.metadata.reader import MetadataReader
from controller.metadata.reconcile import MetadataReconciler
from controller.models.act import ModelActor
from controller.models.drift import DriftWatch
from controller.models.observe import ModelObserver
from controller.models.reconcile import ModelReconciler
from controller.models.resolver import Resolver
from controller.nodes.act import NodeActor
from controller.nodes.evicted import Evictions
from controller.nodes.observe import NodeObserver
from controller.nodes.reconcile import NodeReconciler
from controller.nodes.steps import Pace
from controller.placement.groups import Limits
from controller.placement.shares import Room
from controller.settings import Settings
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.keys import EntryKey, NodeKey, QueueKey, lane_of
from controller.state.live_reader import Live
from controller.state.progress import ProgressBook
from shared.internal_errors import keep_running
from shared.kube.elector import Elector
from shared.kube.errors import KubeError
from shared.kube.lease import LeaseLock
from shared.kube.transport import Kube, connect
from shared.kube.work_queue import WorkQueue
from shared.log import configure_logging
from shared.serve import Tls, serve
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.trust import Trust

LEASE = "larder-controller"
_PROGRESS_DELAY_S = 1.0
_TAKE_OVER_AGAIN_S = 1.0
_log = structlog.get_logger()


def _now() -> datetime:
    return datetime.now(UTC)


class Controller:
    """Every object of one replica, wired once."""

    def __init__(self, settings: Settings, sources: SourceSettings, kube: Kube, identity: str) -> None:
        loop = asyncio.get_running_loop()
        self.settings, self.kube, self.metrics = settings, kube, Metrics()
        defaults = Limits(settings.default_storage_limit, settings.default_bandwidth_limit)
        self.cluster = ClusterState(defaults, loop.time, settings.allowed, settings.files, settings.store_root)
        self.queue: WorkQueue[QueueKey] = WorkQueue(self._failed, lane_of=lane_of)
        self.watcher = Watcher(self.cluster, self.queue.add, self.queue.add_after)
        self.watcher.listen()
        self.progress = ProgressBook(loop.time, self._progressed)
        self.manifests = Manifests(kube, settings.namespace, settings.manifest_bytes_per_namespace)
        self.secrets = Secrets(kube, settings.namespace, sources, settings.allowed)
        self.resolver = Resolver(
            self.secrets,
            self.manifests,
            sources,
            loop.time,
            self.queue.add,
            per_minute=settings.resolutions_per_minute,
        )
        self.reader = MetadataReader(self.secrets, self.manifests, sources, loop.time, self.queue.add)
        self.drift = DriftWatch(self.resolver.upstream_of, settings.drift_check_seconds, loop.time, self.queue.add)
        self.live = Live(kube, self.cluster.ownership, settings.allowed, settings.files)
        self.follower: Follower = follow(
            kube,
            self.cluster,
            settings.namespace,
            self.metrics,
            self.queue.add,
            services=settings.inference_services,
        )
        self.service_users = ServiceUsers(kube, self.cluster, settings.inference_services)
        self.catalog = StateCatalog(self.cluster, kube, self.manifests, self.service_users)
        lock = LeaseLock(
            kube,
            settings.namespace,
            LEASE,
            identity,
            settings.lease_seconds,
            annotations={ADDRESS_ANNOTATION: settings.advertise},
        )
        self.elector = Elector(
            lock,
            self._lead,
            deadline_s=settings.lease_seconds * 2 / 3,
            retry_s=settings.lease_seconds / 7.5,
            on_trouble=lambda error: _log.info("election_trouble", error=str(error)),
        )
        self.garbage = GarbageCollector(
            GarbageObserver(kube, self.cluster, self.manifests),
            self.resolver,
            lambda: self.elector.leading,
            settings.manifest_grace_seconds,
            loop.time,
        )
        self.dispatcher = self._dispatcher()
        self.metrics.registry.register(
            Census(self.cluster, self.dispatcher.grants.granted, self.queue.__len__, lambda: self.elector.leading)
        )

    def _dispatcher(self) -> Dispatcher:
        settings, kube, cluster = self.settings, self.kube, self.cluster
        nodes = NodeReconciler(
            NodeObserver(cluster, kube, self.live, settings.store_root),
            NodeActor(kube),
            Evictions(Events(kube, _now), self.metrics.evict),
            _now,
            Pace(settings.drain_seconds, settings.drain_seconds, settings.eviction_idle_seconds),
            room=Room(settings.models_per_node),
        )
        actor = ModelActor(kube, cluster.ownership, Events(kube, _now), _now)
        observer = ModelObserver(cluster, self.resolver, self.progress, self.drift)
        models = ModelReconciler(
            observer,
            actor,
            self.resolver,
            self.drift,
            self.catalog,
            _now,
            settings.finalizer_seconds,
        )
        metadata = MetadataReconciler(cluster, self.reader, actor, _now)
        jobs = JobSettings(
            settings.agent_image,
            settings.agent_image_pull_policy,
            settings.claims_tolerations,
            settings.claims_image_pull_secrets,
        )
        claims = ClaimReconciler(
            ClaimObserver(cluster, kube, _now, settings.claims_require_namespace_label),
            ClaimActor(kube, actor, jobs),
        )
        grants = GrantsReconciler(
            cluster,
            kube,
            self.progress,
            nodes.granted,
            lambda name: self.queue.add(NodeKey(name)),
            settings.agent_lost_seconds,
            settings.stalled_seconds,
            settings.grant_seconds,
        )
        groups = GroupReconciler(cluster, kube, _now)
        services = ServiceReconciler(
            ServiceObserver(cluster, kube, self.catalog), ServiceActor(kube, Events(kube, _now), _now)
        )
        return Dispatcher(
            models, metadata, claims, nodes, groups, grants, services, lambda: self.elector.leading, self.metrics
        )

    def api_app(self, leader: Leader, callers: Callers) -> FastAPI:
        """Return what is served over TLS: admission, and the agents' API."""
        settings = self.settings
        app = FastAPI(openapi_url=None)
        app.add_middleware(CountRequests, count=self.metrics.request)
        rules = AdmissionSettings(settings.store_root, settings.model_cache_enabled, settings.allowed)
        app.include_router(admission_router(self.catalog, rules, callers, self.metrics.review))
        username = f"system:serviceaccount:{settings.namespace}:{settings.agent_service_account}"
        clock = asyncio.get_running_loop().time
        api = AgentApi(
            Gate(Authenticator(self.kube, self.cluster, username, settings.token_audience, clock), clock),
            Desk(self.kube, self.cluster, self.manifests, self.secrets, self.live),
            self.progress,
            leader,
            lambda: self.elector.leading,
        )
        app.include_router(api.router())
        return app

    async def campaign(self) -> None:
        """Stand for election, lead while it lasts, and stand again."""
        await self.follower.synced()
        gc.freeze()  # a hundred thousand objects that stay: every full collection would look at each of them
        while True:
            await self.elector.run()
            self.metrics.leading.set(0)
            _log.info("leadership_lost")

    async def _lead(self) -> None:
        """Serve the queue; nothing is granted before memory has caught up and the grants are read back from it."""
        _log.info("leading", advertise=self.settings.advertise)
        self.metrics.leading.set(1)
        self.resolver.drop_answers()
        try:
            await self._take_over()
            self.watcher.enqueue_all()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep_running("garbage", self.garbage.run, self.metrics.internal_errors))
                tasks.create_task(self.queue.serve(self.settings.workers, self.dispatcher.serve))
        finally:
            await self.resolver.stop()
            await self.drift.stop()
            await self.reader.stop()

    async def _take_over(self) -> None:
        while True:
            try:
                await self.dispatcher.grants.take_over()
                await self.dispatcher.grants.reconcile()
            except KubeError as error:
                _log.warning("takeover_delayed", error=str(error))
                await asyncio.sleep(_TAKE_OVER_AGAIN_S)
            except Exception as error:  # noqa: BLE001 - the grants have turns of their own, and all else has its turns too
                self.metrics.internal_errors.note("takeover", error)
                return
            else:
                return

    def _failed(self, key: QueueKey, error: Exception, wait_s: float) -> None:
        self.dispatcher.failed(key, error, wait_s)

    def _progressed(self, _node: str, entry: EntryKey) -> None:
        for key in self.cluster.keys_of_id(entry[0]):
            self.queue.add_after(key, _PROGRESS_DELAY_S)


def _callers(settings: Settings) -> Callers:
    if settings.admission_keys is None:
        raise SystemExit("InvalidSettings: LARDER_ADMISSION_KEYS must name the file with the path keys of admission")
    try:
        keys = KeyFile(settings.admission_keys)
    except (OSError, InvalidKeysError) as error:
        raise SystemExit(f"InvalidSettings: LARDER_ADMISSION_KEYS: {error}") from error
    return Callers(keys, settings.admission_client_ca is not None, settings.client_names)


async def run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Run one replica until SIGTERM or SIGINT."""
    if settings.certificate is None or settings.private_key is None:
        raise SystemExit("InvalidSettings: LARDER_CERTIFICATE and LARDER_PRIVATE_KEY must name PEM files")
    sources, callers = settings_from_environ(environ), _callers(settings)
    identity = f"{settings.identity or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(settings.kubeconfig, user_agent="larder-controller") as kube, AsyncExitStack() as closing:
        controller = Controller(settings, sources, kube, identity)
        loop = asyncio.get_running_loop()
        leader = Leader(
            kube,
            f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases/{LEASE}",
            Trust(settings.ca),
            settings.tls_name,
            loop.time,
        )
        closing.push_async_callback(leader.close)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(controller.follower.run()),
                tasks.create_task(keep_running("election", controller.campaign, controller.metrics.internal_errors)),
                tasks.create_task(
                    serve(
                        controller.api_app(leader, callers),
                        settings.listen,
                        Tls(settings.certificate, settings.private_key, settings.admission_client_ca),
                        tell_end=controller.metrics.certificate_end.set,
                    )
                ),
                tasks.create_task(
                    serve(
                        health_app(controller.metrics, lambda: controller.follower.is_synced),
                        settings.listen_health,
                    )
                ),
            ]
            await stop.wait()
            _log.info("stopping")
            for task in running:
                task.cancel()


def main() -> None:
    """Read the settings and run."""
    configure_logging()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # no series with the birth of each counter
    try:
        settings = Settings(_cli_parse_args=True)  # type: ignore[call-arg]  # what pydantic-settings takes beside fields
    except ValueError as error:
        sys.exit(f"InvalidSettings: {error}")
    configure_logging(settings.log_level)
    asyncio.run(run(settings, os.environ))


if __name__ == "__main__":
    main()
