"""What the features of one replica share, and the manager that runs them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from fastapi import FastAPI
from starlette.types import ASGIApp

from controller.admission.callers import Callers
from controller.admission.catalog.state_catalog import StateCatalog
from controller.admission.metrics import AdmissionMetrics
from controller.admission.server import admission_router
from controller.admission.settings import AdmissionSettings
from controller.agentapi.authenticator import Authenticator
from controller.agentapi.leader import ADDRESS_ANNOTATION, LeaderClient
from controller.agentapi.request_guard import RequestGuard
from controller.agentapi.server import AgentApi
from controller.agentapi.service import AgentService
from controller.inferenceservices.users import ServiceUsers
from controller.manager.asgi import ByPrefix, CountRequests
from controller.manager.controller import Feature
from controller.manager.event_recorder import EventRecorder
from controller.manager.manager import Manager, ManagerSettings
from controller.manager.metrics import Metrics
from controller.models.act import ModelActor
from controller.models.resolver import Resolver
from controller.placement.groups import NodeLimits
from controller.provisioning.provisioner import Provisioner, ProvisionSettings
from controller.settings import ControllerSettings
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_informers import cluster_informers
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.keys import EntryKey
from controller.state.live_reader import LiveReader
from controller.state.progress import ProgressTracker
from controller.state.signal import Signal
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings

LEASE = "larder-controller"


class Replica:
    """Every object that features share, wired once."""

    def __init__(
        self,
        settings: ControllerSettings,
        sources: SourceSettings,
        kube: Kube,
        identity: str,
        source_environment: Mapping[str, str] | None = None,
        election_kube: Kube | None = None,
    ) -> None:
        self.settings, self.sources, self.kube, self.metrics = settings, sources, kube, Metrics()
        self.source_environment = source_environment or {}  # for download Jobs
        self.identity = identity
        # ASGI applications that features add to admission and the agents' API, by path prefix
        self.apps: dict[str, Callable[[Callers], ASGIApp]] = {}
        self.clock = asyncio.get_running_loop().time
        defaults = NodeLimits(settings.default_storage_limit, settings.default_bandwidth_limit)
        self.cluster = ClusterState(defaults, self.clock, settings.allowed, settings.files, settings.store_root)
        self.manager = Manager(
            kube, self.cluster.ownership, _manager_settings(settings, identity), self.metrics, election_kube
        )
        self.manager.add_informers(cluster_informers(self.cluster, settings.namespace, devices=settings.dra))
        self.events = EventRecorder(kube, self.now)
        self.provisioner = self._provisioner()
        self.progressed: Signal[str, EntryKey] = Signal()
        self.progress = ProgressTracker(self.clock, self.progressed.emit)
        self.granted = set[str]()  # nodes of limited groups that may download now
        self.grant_changed: Signal[str] = Signal()
        self.live = LiveReader(kube, self.cluster.ownership, settings.allowed, settings.files)
        self.manifests = Manifests(kube, settings.namespace, settings.manifest_bytes_per_namespace)
        self.secrets = Secrets(kube, settings.namespace, sources, settings.allowed)
        self.resolver = Resolver(
            self.secrets,
            self.manifests,
            sources,
            self.clock,
            self.manager.enqueue,
            per_minute=settings.resolutions_per_minute,
        )
        users = ServiceUsers(kube, self.cluster, settings.inference_services)
        self.devices, self.offers = ResourceClaimUsers(kube, settings.dra), ResourceSliceReader(kube, settings.dra)
        self.catalog = StateCatalog(self.cluster, kube, self.manifests, users, self.devices)
        self.model_actor = ModelActor(kube, self.cluster.ownership, self.events, self.now)

    def _provisioner(self) -> Provisioner:
        settings = ProvisionSettings(
            rate=self.settings.volumes_qps,
            burst=self.settings.volumes_burst,
            max_attempts=self.settings.volumes_max_attempts,
            turns=self.settings.volumes_turns,
        )
        return Provisioner(
            settings,
            self.clock,
            self.metrics.registry,
            lambda key, error: self.metrics.internal_errors.note("provisioner", error, key=str(key)),
        )

    def add(self, features: Iterable["AddFeature"]) -> None:
        """Add features to the manager."""
        for feature in features:
            self.manager.add(feature(self))

    def now(self) -> datetime:
        """Return the current UTC time."""
        return datetime.now(UTC)

    def api_app(self, leader: LeaderClient, callers: Callers) -> ASGIApp:
        """Return the app served over TLS: admission, the agents' API, and what features add."""
        settings = self.settings
        app = FastAPI(openapi_url=None)
        reviews = AdmissionMetrics(self.metrics.registry)
        rules = AdmissionSettings(
            store_root=settings.store_root,
            model_cache_enabled=settings.model_cache_enabled,
            allowed=settings.allowed,
            mount=settings.mount,
            placement=settings.placement,
            csi_drivers=frozenset(settings.model_cache_csi_drivers),
            workloads=settings.workloads,
            scheduler=settings.scheduler,
        )
        app.include_router(admission_router(self.catalog, rules, callers, reviews.review))
        username = f"system:serviceaccount:{settings.namespace}:{settings.agent_service_account}"
        api = AgentApi(
            RequestGuard(
                Authenticator(self.kube, self.cluster, username, settings.token_audience, self.clock), self.clock
            ),
            AgentService(self.kube, self.cluster, self.manifests, self.secrets, self.live),
            self.progress,
            leader,
            self.manager.is_leading,
        )
        app.include_router(api.router())
        apps = {prefix: make(callers) for prefix, make in self.apps.items()}
        return CountRequests(ByPrefix(apps, app), self.metrics.request)


AddFeature: TypeAlias = Callable[[Replica], Feature]


def _manager_settings(settings: ControllerSettings, identity: str) -> ManagerSettings:
    return ManagerSettings(
        namespace=settings.namespace,
        identity=identity,
        lease=LEASE,
        lease_seconds=settings.lease_seconds,
        lease_annotations={ADDRESS_ANNOTATION: settings.advertise},
        workers=settings.workers,
        listen_health=settings.listen_health,
    )
