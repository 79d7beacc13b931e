"""The features of the controller: one package and one line each.

kind                                             package
ModelNode                                        nodes
ClusterModelCache, BaseModel, ClusterBaseModel   models; claims if the model is on a PVC; metadata
ModelCacheNodeGroup                              groups
ModelCache                                       modelcaches
Model                                            modeloperator
InferenceService                                 inferenceservices
TrainingJob                                      trainingjobs

other objects                                    package
volumes and claims through which pods mount      volumes
pods that wait for their model                   waiting_pods
a claim for each pod of a workload               replica_claims
devices of nodes and pods                        extender
claims, volumes and pods to be created           provisioning
Events on services that no cache serves          uncached_services
manifests that nothing names                     manifest_gc
"""

from typing import Any

from controller.claims.act import ClaimActor
from controller.claims.controller import claims_controller
from controller.claims.job import JobSettings
from controller.claims.observe import ClaimObserver
from controller.claims.reconcile import ClaimReconciler
from controller.devices.entry_points import load_schedulers
from controller.downloads.job import DownloadJobSettings
from controller.downloads.progress import ProgressReader
from controller.extender.accounts import DeviceAccounts
from controller.extender.bind import DeviceBinder
from controller.extender.callers import extender_callers
from controller.extender.controller import DeviceInformers, extender_controller
from controller.extender.metrics import ExtenderMetrics
from controller.extender.open_namespaces import OpenNamespaces
from controller.extender.reconcile import DeviceNodeReconciler
from controller.extender.refused_pods import RefusedPods, SchedulerWaker
from controller.extender.reservations import ReservationStore
from controller.extender.reserve import DeviceReserver
from controller.extender.server import PREFIX, ExtenderServer
from controller.extender.service import ExtenderService
from controller.extender.shared_claims import SharedClaims
from controller.extender.worker import DeviceWorker
from controller.groups.controller import grants_controller, groups_controller
from controller.groups.grants import GrantsReconciler
from controller.groups.reconcile import GroupReconciler
from controller.inferenceservices.act import ServiceActor
from controller.inferenceservices.controller import inferenceservices_controller
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.manager.controller import Controller, LeaderTask
from controller.manager.limited_events import LimitedEvents
from controller.manager.pod_events import PodEvents
from controller.manifest_gc.collector import ManifestCollector
from controller.manifest_gc.observe import ManifestObserver
from controller.metadata.controller import metadata_controller
from controller.metadata.reader import MetadataReader
from controller.metadata.reconcile import MetadataReconciler
from controller.modelcaches.act import ModelCacheActor
from controller.modelcaches.controller import model_caches_controller
from controller.modelcaches.observe import ModelCacheObserver
from controller.modelcaches.reconcile import ModelCacheReconciler
from controller.modeloperator.act import ModelOperatorActor
from controller.modeloperator.controller import model_operator_controller
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.reconcile import ModelOperatorReconciler
from controller.models.controller import models_controller
from controller.models.drift import DriftChecker
from controller.models.observe import ModelObserver
from controller.models.reconcile import ModelReconciler
from controller.nodes.act import NodeActor
from controller.nodes.controller import nodes_controller
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.eviction_recorder import EvictionMetrics, EvictionRecorder
from controller.nodes.observe import NodeObserver
from controller.nodes.reconcile import NodeReconciler
from controller.placement.shares import ModelNodeCapacity
from controller.provisioning.creations import Creations
from controller.provisioning.failed_creations import FailedCreations
from controller.replica import AddFeature, Replica
from controller.replica_claims.act import ReplicaClaimActor
from controller.replica_claims.controller import replica_claims_controller
from controller.replica_claims.keys import TemplateClaimKey
from controller.replica_claims.observe import ReplicaPodObserver
from controller.replica_claims.owners import WorkloadOwners
from controller.replica_claims.pods import ReplicaPods
from controller.replica_claims.reconcile import ReplicaPodReconciler
from controller.replica_claims.state_metrics import ReplicaPodMetrics
from controller.trainingjobs.act import TrainingJobActor
from controller.trainingjobs.controller import training_jobs_controller
from controller.trainingjobs.observe import TrainingJobObserver
from controller.trainingjobs.recent_creations import RecentCreations
from controller.trainingjobs.reconcile import TrainingJobReconciler
from controller.trainingjobs.requested_claims import RequestedClaims
from controller.trainingjobs.state import TrainingJobs
from controller.uncached_services.controller import uncached_services_controller
from controller.uncached_services.pods import UncachedPods
from controller.uncached_services.reconcile import UncachedServiceReconciler
from controller.uncached_services.services import KINDS
from controller.volumes.act import VolumeActor
from controller.volumes.controller import volumes_controller
from controller.volumes.observe import VolumeObserver
from controller.volumes.reconcile import VolumeReconciler
from controller.waiting_pods.act import WaitingPodsActor
from controller.waiting_pods.controller import waiting_pods_controller
from controller.waiting_pods.observe import WaitingPodsObserver
from controller.waiting_pods.reconcile import WaitingPodsReconciler
from controller.waiting_pods.state_metrics import WaitingPodsMetrics


def _creations(replica: Replica) -> Creations[Any]:
    return Creations(replica.provisioner, replica.manager.enqueue, replica.clock)


def _nodes(replica: Replica) -> Controller[Any]:
    settings, cluster = replica.settings, replica.cluster
    reconciler = NodeReconciler(
        NodeObserver(cluster, replica.kube, replica.live, settings.store_root, replica.devices, replica.offers),
        NodeActor(replica.kube),
        EvictionRecorder(replica.events, EvictionMetrics(replica.metrics.registry).count_eviction),
        replica.now,
        RemovalTiming(settings.drain_seconds, settings.drain_seconds, settings.eviction_idle_seconds),
        granted=replica.granted,
        capacity=ModelNodeCapacity(settings.models_per_node),
    )
    return nodes_controller(cluster, reconciler, replica.grant_changed)


def _claims(replica: Replica) -> Controller[Any]:
    settings = replica.settings
    jobs = JobSettings(
        settings.agent_image,
        settings.agent_image_pull_policy,
        settings.claims_tolerations,
        settings.claims_image_pull_secrets,
    )
    reconciler = ClaimReconciler(
        ClaimObserver(replica.cluster, replica.kube, replica.now, settings.claims_require_namespace_label),
        ClaimActor(replica.kube, replica.model_actor, jobs),
    )
    return claims_controller(replica.cluster, reconciler)


def _models(replica: Replica) -> Controller[Any]:
    read_upstream, period_s = replica.resolver.read_upstream_revision, replica.settings.drift_check_seconds
    drift = DriftChecker(read_upstream, period_s, replica.clock, replica.manager.enqueue)
    reconciler = ModelReconciler(
        ModelObserver(replica.cluster, replica.resolver, replica.progress, drift),
        replica.model_actor,
        replica.resolver,
        drift,
        replica.catalog,
        replica.now,
        replica.settings.finalizer_seconds,
    )
    return models_controller(replica.cluster, reconciler, replica.progressed)


def _metadata(replica: Replica) -> Controller[Any]:
    enqueue = replica.manager.enqueue
    reader = MetadataReader(replica.secrets, replica.manifests, replica.sources, replica.clock, enqueue)
    reconciler = MetadataReconciler(replica.cluster, reader, replica.model_actor, replica.now)
    return metadata_controller(replica.cluster, reconciler)


def _groups(replica: Replica) -> Controller[Any]:
    return groups_controller(replica.cluster, GroupReconciler(replica.cluster, replica.kube, replica.now))


def _services(replica: Replica) -> Controller[Any]:
    reconciler = ServiceReconciler(
        ServiceObserver(replica.cluster, replica.kube, replica.catalog),
        ServiceActor(replica.kube, replica.events, replica.now),
    )
    return inferenceservices_controller(replica.cluster, reconciler, enabled=replica.settings.inference_services)


def _grants(replica: Replica) -> Controller[Any]:
    settings = replica.settings
    reconciler = GrantsReconciler(
        replica.cluster,
        replica.kube,
        replica.progress,
        replica.granted,
        replica.grant_changed.emit,
        settings.agent_lost_seconds,
        settings.stalled_seconds,
        settings.grant_seconds,
    )
    return grants_controller(replica.cluster, reconciler)


def _manifest_gc(replica: Replica) -> LeaderTask:
    collector = ManifestCollector(
        ManifestObserver(replica.kube, replica.cluster, replica.manifests),
        replica.resolver,
        replica.manager.is_leading,
        replica.settings.manifest_grace_seconds,
        replica.clock,
    )
    return LeaderTask("manifest_gc", collector.run)


def _volumes(replica: Replica) -> Controller[Any]:
    reconciler = VolumeReconciler(
        VolumeObserver(replica.cluster, replica.kube, replica.clock),
        VolumeActor(replica.kube),
        _creations(replica),
        PodEvents(LimitedEvents(replica.events, replica.clock)),
    )
    return volumes_controller(replica.cluster, reconciler)


def _uncached_services(replica: Replica) -> Controller[Any]:
    pods = {kind: UncachedPods(kind) for kind in KINDS}
    return uncached_services_controller(
        UncachedServiceReconciler(replica.kube, pods, LimitedEvents(replica.events, replica.clock))
    )


def _waiting_pods(replica: Replica) -> Controller[Any]:
    reconciler = WaitingPodsReconciler(
        WaitingPodsObserver(replica.cluster, replica.progress),
        WaitingPodsActor(replica.kube),
        PodEvents(LimitedEvents(replica.events, replica.clock)),
        WaitingPodsMetrics(replica.now),
        replica.now,
    )
    return waiting_pods_controller(replica.cluster, reconciler)


def _replica_claims(replica: Replica) -> Controller[Any]:
    pods, volumes = ReplicaPods(), replica.cluster.volumes
    owners = WorkloadOwners(replica.kube, replica.settings.workloads, replica.clock)
    failures: FailedCreations[TemplateClaimKey] = FailedCreations(replica.clock)
    reconciler = ReplicaPodReconciler(
        ReplicaPodObserver(pods, volumes.claims, owners, failures.of),
        ReplicaClaimActor(replica.kube, owners),
        replica.provisioner,
        LimitedEvents(replica.events, replica.clock),
        ReplicaPodMetrics(replica.now),
        failures,
        replica.manager.enqueue,
    )
    return replica_claims_controller(pods, volumes.claim_changed, reconciler)


def _download_jobs(replica: Replica) -> DownloadJobSettings:
    settings = replica.settings
    return DownloadJobSettings(
        image=settings.agent_image,
        pull_policy=settings.agent_image_pull_policy,
        pull_secrets=settings.claims_image_pull_secrets,
        tolerations=settings.claims_tolerations,
        environment=replica.source_environment,
        ca_config_map=settings.sources_ca_config_map,
        ca_key=settings.sources_ca_key,
    )


def _model_operator(replica: Replica) -> Controller[Any]:
    settings, enqueue = replica.settings, replica.manager.enqueue
    observer = ModelOperatorObserver(
        replica.cluster, replica.kube, ProgressReader[ModelObjectKey](replica.clock, enqueue)
    )
    reconciler = ModelOperatorReconciler(
        observer,
        ModelOperatorActor(
            replica.kube,
            replica.events,
            _download_jobs(replica),
            ModelDownloadMetrics(replica.metrics.registry),
            replica.now,
        ),
        _creations(replica),
        replica.now,
    )
    return model_operator_controller(observer, reconciler, enabled=settings.models)


def _model_caches(replica: Replica) -> Controller[Any]:
    settings, enqueue = replica.settings, replica.manager.enqueue
    reconciler = ModelCacheReconciler(
        ModelCacheObserver(
            replica.cluster,
            replica.kube,
            replica.resolver,
            ProgressReader(replica.clock, enqueue),
            replica.now,
            frozenset(settings.model_cache_csi_drivers),
        ),
        ModelCacheActor(replica.kube, replica.events, replica.secrets, _download_jobs(replica), replica.now),
        _creations(replica),
        settings.finalizer_seconds,
        settings.model_caches,
    )
    return model_caches_controller(replica.cluster, reconciler)


def _training_jobs(replica: Replica) -> Controller[Any]:
    jobs, requested, volumes = TrainingJobs(), RequestedClaims(replica.provisioner), replica.cluster.volumes
    recent = RecentCreations(replica.clock)
    reconciler = TrainingJobReconciler(
        TrainingJobObserver(jobs, volumes.claims, recent, FailedCreations(replica.clock), requested.state),
        TrainingJobActor(replica.kube, replica.events, replica.now),
        requested,
        replica.manager.enqueue,
    )
    return training_jobs_controller(jobs, volumes, reconciler, enabled=replica.settings.training_jobs)


def _extender(replica: Replica) -> Controller[Any]:
    accounts, clock, enabled = DeviceAccounts(), replica.clock, replica.settings.scheduler
    informers = DeviceInformers(accounts)
    reserver: DeviceReserver | None = None
    if enabled:
        metrics = ExtenderMetrics(replica.metrics.registry)
        loaded = load_schedulers()
        for name, reason in loaded.failures.items():
            metrics.plugin_failed(name)
            replica.metrics.internal_errors.note("scheduler_plugin", RuntimeError(reason), plugin=name)
        refused = RefusedPods()
        waker = SchedulerWaker(
            replica.kube, replica.settings.namespace, refused, clock, replica.now, replica.metrics.internal_errors
        )

        def dropped(plugin: str, _reason: str) -> None:
            metrics.plugin_failed(plugin)
            waker.plugin_dropped()

        worker = DeviceWorker(accounts, loaded.plugins, clock, dropped)
        store = ReservationStore(replica.kube, replica.settings.namespace, replica.identity, clock)
        informers.node_changed.listen(store.node_changed)
        reserver = DeviceReserver(replica.kube, accounts, informers.pods, worker, store, metrics.conflict)
        is_open = OpenNamespaces(replica.kube, clock).is_open
        claims = SharedClaims(replica.kube, replica.settings.dra_plugins)
        binder = DeviceBinder(replica.kube, accounts, informers.pods, reserver, is_open, claims)
        accounts.freed.listen(waker.devices_freed)
        service = ExtenderService(replica.cluster, worker, clock, refused)
        replica.apps[PREFIX] = lambda callers: ExtenderServer(
            service, binder, extender_callers(callers.keys), replica.manager.is_synced, metrics
        )
    reconciler = DeviceNodeReconciler(accounts, LimitedEvents(replica.events, clock), reserver)
    return extender_controller(accounts, informers, reconciler, enabled=enabled)


def _provisioner(replica: Replica) -> LeaderTask:
    return LeaderTask("provisioner", replica.provisioner.run)


# A change triggers the controllers in this order. Those with keys of the same type (_claims, _models and _metadata)
# reconcile a key one after another.
FEATURES: tuple[AddFeature, ...] = (
    _nodes,
    _claims,
    _models,
    _metadata,
    _groups,
    _services,
    _grants,
    _volumes,
    _waiting_pods,
    _model_caches,
    _training_jobs,
    _replica_claims,
    _model_operator,
    _extender,
    _provisioner,
    _uncached_services,
    _manifest_gc,
)
