"""The features of the controller: one package and one line each."""

from typing import Any

from controller.claims.act import ClaimActor
from controller.claims.controller import claims_controller
from controller.claims.job import JobSettings
from controller.claims.observe import ClaimObserver
from controller.claims.reconcile import ClaimReconciler
from controller.garbage.collector import GarbageCollector
from controller.garbage.controller import garbage_task
from controller.garbage.observe import GarbageObserver
from controller.groups.controller import grants_controller, groups_controller
from controller.groups.grants import GrantsReconciler
from controller.groups.reconcile import GroupReconciler
from controller.inferenceservices.act import ServiceActor
from controller.inferenceservices.controller import inferenceservices_controller
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.manager.controller import Controller, LeaderTask
from controller.metadata.controller import metadata_controller
from controller.metadata.reader import MetadataReader
from controller.metadata.reconcile import MetadataReconciler
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
from controller.placement.shares import ModelNodeRoom
from controller.replica import AddFeature, Replica
from controller.volumes.act import VolumeActor
from controller.volumes.controller import volumes_controller
from controller.volumes.observe import VolumeObserver
from controller.volumes.pod_events import PodEvents
from controller.volumes.reconcile import VolumeReconciler


def _nodes(replica: Replica) -> Controller[Any]:
    settings, cluster = replica.settings, replica.cluster
    reconciler = NodeReconciler(
        NodeObserver(cluster, replica.kube, replica.live, settings.store_root),
        NodeActor(replica.kube),
        EvictionRecorder(replica.events, EvictionMetrics(replica.metrics.registry).evict),
        replica.now,
        RemovalTiming(settings.drain_seconds, settings.drain_seconds, settings.eviction_idle_seconds),
        granted=replica.granted,
        room=ModelNodeRoom(settings.models_per_node),
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
    upstream_of, period_s = replica.resolver.upstream_of, replica.settings.drift_check_seconds
    drift = DriftChecker(upstream_of, period_s, replica.clock, replica.manager.enqueue)
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


def _garbage(replica: Replica) -> LeaderTask:
    collector = GarbageCollector(
        GarbageObserver(replica.kube, replica.cluster, replica.manifests),
        replica.resolver,
        replica.manager.is_leading,
        replica.settings.manifest_grace_seconds,
        replica.clock,
    )
    return garbage_task(collector)


def _volumes(replica: Replica) -> Controller[Any]:
    reconciler = VolumeReconciler(
        VolumeObserver(replica.cluster, replica.kube, replica.clock),
        VolumeActor(replica.kube),
        replica.provisioner,
        PodEvents(replica.events, replica.clock),
        replica.manager.enqueue,
        replica.clock,
    )
    return volumes_controller(replica.cluster, reconciler)


def _provisioner(replica: Replica) -> LeaderTask:
    return LeaderTask("provisioner", replica.provisioner.run)


# Controllers triggered by the same change, or sharing a key, run in this order.
FEATURES: tuple[AddFeature, ...] = (
    _nodes,
    _claims,
    _models,
    _metadata,
    _groups,
    _services,
    _grants,
    _volumes,
    _provisioner,
    _garbage,
)
