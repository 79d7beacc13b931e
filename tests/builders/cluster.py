"""Builders of the objects of a cluster state, and the keys that its changes queue."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller.claims.controller import claims_controller
from controller.claims.reconcile import ClaimReconciler
from controller.groups.controller import grants_controller, groups_controller
from controller.groups.grants import GrantsReconciler
from controller.groups.keys import GrantsKey, GroupKey
from controller.inferenceservices.controller import inferenceservices_controller
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.manager.controller import Controller, QueueKey
from controller.metadata.controller import metadata_controller
from controller.metadata.reader import MetadataReader
from controller.metadata.reconcile import MetadataReconciler
from controller.modelcaches.controller import model_caches_controller
from controller.modelcaches.reconcile import ModelCacheReconciler
from controller.models.controller import models_controller
from controller.models.reconcile import ModelReconciler
from controller.nodes.controller import nodes_controller
from controller.nodes.keys import NodeKey
from controller.placement.groups import NodeLimits
from controller.provisioning.creations import Creations
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner, ProvisionSettings
from controller.replica_claims.controller import replica_claims_controller
from controller.replica_claims.pods import ReplicaPods
from controller.replica_claims.reconcile import ReplicaPodReconciler
from controller.replica_claims.state_metrics import ReplicaPodMetrics
from controller.state.cluster_state import ClusterState
from controller.state.keys import EntryKey, ModelKey
from controller.state.signal import Signal
from controller.volumes.controller import volumes_controller
from controller.volumes.keys import VolumeKey
from controller.volumes.reconcile import VolumeReconciler
from controller.waiting_pods.controller import waiting_pods_controller
from controller.waiting_pods.reconcile import WaitingPodsReconciler
from controller.waiting_pods.state_metrics import WaitingPodsMetrics
from shared.api.base_model import BaseModel, BaseModelSpec, ClusterBaseModel, Storage
from shared.api.cluster_model_cache import ClusterModelCache, ClusterModelCacheSpec, ClusterModelCacheStatus
from shared.api.core import (
    HostPath,
    MountedClaim,
    Node,
    PlainCondition,
    Pod,
    PodSpec,
    StatusWithConditions,
    Volume,
)
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.api.model_node import Claim, Entry, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.dra import (
    DRIVER,
    AllocatedDevice,
    AllocatedDevices,
    ClaimConsumer,
    ResourceAllocation,
    ResourceClaim,
    ResourceClaimStatus,
    device_name,
)
from shared.kube.objects import Meta
from shared.names import snapshot_path
from shared.sources.settings import SourceSettings

DIGEST = "d" * 64
_versions = iter(range(1, 10**9))


def meta(name: str, **fields: Any) -> Meta:
    """Metadata with a new resource version each time, as after every write."""
    defaults: dict[str, Any] = {"uid": f"uid-{name}", "creation_timestamp": "2026-01-01T00:00:00Z", "generation": 1}
    return Meta(name=name, resource_version=str(next(_versions)), **(defaults | fields))


def conditions(*, ready: bool, phase: str = "") -> StatusWithConditions:
    return StatusWithConditions(
        phase=phase, conditions=[PlainCondition(type="Ready", status="True" if ready else "False")]
    )


def node(name: str, labels: Mapping[str, str] | None = None, *, ready: bool = True, **fields: Any) -> Node:
    return Node(metadata=meta(name, labels=dict(labels or {}), **fields), status=conditions(ready=ready))


def group(name: str, selector: Mapping[str, str], **spec: Any) -> ModelCacheNodeGroup:
    fields: dict[str, Any] = {"storage_limit": "1Gi", "node_selector": dict(selector)} | spec
    return ModelCacheNodeGroup(metadata=meta(name), spec=ModelCacheNodeGroupSpec(**fields))


def cache(name: str, *groups: str, uri: str = "", revision: str = "r1", **fields: Any) -> ClusterModelCache:
    """A cache that is resolved, unless `revision` is empty."""
    uri = uri or f"hf://org/{name}"
    reported: dict[str, Any] = {"source": f"{uri}@main", "manifest_digest": DIGEST, "size": 10} if revision else {}
    status = ClusterModelCacheStatus(resolved_revision=revision, serving_revision=revision, **reported)
    spec = ClusterModelCacheSpec(storage_uri=uri, node_groups=list(groups))
    return ClusterModelCache(metadata=meta(name, **fields), spec=spec, status=status)


def cluster_model(name: str, selector: Mapping[str, str], *, uri: str = "", **fields: Any) -> ClusterBaseModel:
    """A model that is not resolved."""
    storage = Storage(storage_uri=uri or f"hf://org/{name}", node_selector=dict(selector))
    return ClusterBaseModel(metadata=meta(name, **fields), spec=BaseModelSpec(storage=storage))


def base_model(namespace: str, name: str, *, secret: str = "", **parameters: str) -> BaseModel:
    """A namespaced model that is not resolved."""
    storage = Storage(storage_uri=f"hf://org/{name}", key=secret, parameters=parameters)
    return BaseModel(metadata=meta(name, namespace=namespace), spec=BaseModelSpec(storage=storage))


def entry(model: str, revision: str = "r1", *, kind: str = "ClusterModelCache", **fields: Any) -> Entry:
    claims = [Claim(kind=kind, name=model, uid=f"uid-{model}")]
    values: dict[str, Any] = {"claims": claims, "uri": f"hf://org/{model}@main"} | fields
    return Entry(id=model, revision=revision, **values)


def entry_status(model: str, phase: str = "Ready", revision: str = "r1", **fields: Any) -> EntryStatus:
    return EntryStatus(id=model, revision=revision, phase=phase, observed="Present", **fields)


def model_node(name: str, *entries: Entry, reported: Iterable[EntryStatus] = (), **status: Any) -> ModelNode:
    fields: dict[str, Any] = {"node_uid": f"uid-{name}"} | status
    return ModelNode(
        metadata=meta(name, uid=f"mn-{name}", owner_references=[{"kind": "Node", "uid": f"uid-{name}"}]),
        spec=ModelNodeSpec(node_uid=f"uid-{name}", entries=list(entries)),
        status=ModelNodeStatus(entries=list(reported), **fields),
    )


def pod(
    name: str, node_name: str, mounts: Iterable[EntryKey] = (), claims: Iterable[str] = (), *, ready: bool = True,
    **fields: Any,
) -> Pod:  # fmt: skip
    """Return a pod that mounts snapshots and claims."""
    phase = fields.pop("phase", "Running")
    volumes = [Volume(host_path=HostPath(path=f"/var/lib/larder/{snapshot_path(*key)}")) for key in mounts]
    volumes += [Volume(persistent_volume_claim=MountedClaim(claim_name=claim)) for claim in claims]
    spec = PodSpec(node_name=node_name, volumes=volumes)
    fields = {"namespace": "ns"} | fields
    return Pod(metadata=meta(name, **fields), spec=spec, status=conditions(ready=ready, phase=phase))


def device_claim(name: str, key: EntryKey, node_name: str, *pods: str, **fields: Any) -> ResourceClaim:
    """Return a claim that holds a snapshot as a device of a node, reserved for these pods."""
    result = AllocatedDevice(driver=DRIVER, pool=node_name, device=device_name(*key))
    status = ResourceClaimStatus(
        allocation=ResourceAllocation(devices=AllocatedDevices(results=[result])),
        reserved_for=[ClaimConsumer(resource="pods", name=pod, uid=pod) for pod in pods],
    )
    return ResourceClaim(metadata=meta(name, **({"namespace": "ns"} | fields)), status=status)


def fresh_cluster(clock: Any = lambda: 0.0) -> ClusterState:
    return ClusterState(NodeLimits(100, 0), clock)


class WokenKeys:
    """Collects the keys that features queue when a cluster state changes."""

    def __init__(self, cluster: ClusterState, wait: Callable[[float], None] = lambda _: None) -> None:
        self.keys: set[QueueKey] = set()
        self.wait = wait
        self.controllers = controllers_of(cluster)
        for controller in self.controllers:
            for watch in controller.triggers:
                watch.listen(self)

    def add(self, key: QueueKey) -> None:
        self.keys.add(key)

    def add_after(self, key: QueueKey, delay_s: float) -> None:
        self.wait(delay_s)
        self.keys.add(key)

    def enqueue_all(self) -> None:
        """Queue the keys that a new leader queues."""
        self.keys.update(key for controller in self.controllers for key in controller.all_keys())

    def take(self) -> set[QueueKey]:
        """Return the keys, and forget them."""
        keys, self.keys = set(self.keys), self.keys
        self.keys.clear()
        return keys


def controllers_of(cluster: ClusterState, registry: CollectorRegistry | None = None) -> list[Controller[Any]]:
    """Return the features' controllers; their reconcilers have no parts, because nothing is reconciled."""
    none = cast("Any", None)
    models = ModelReconciler(none, none, none, none, none, none, 0.0)
    metadata = MetadataReconciler(cluster, MetadataReader(none, none, SourceSettings(), none, none), none, none)
    provisioner = Provisioner(ProvisionSettings(rate=1, burst=1), lambda: 0.0, registry or CollectorRegistry(), none)
    provisioner.request(ProvisionRequest(VolumeKey("team", "llama"), "team", none, none, none))
    grants = GrantsReconciler(cluster, none, none, {"a", "b"}, none, 0.0, 0.0)
    return [
        nodes_controller(cluster, none, Signal()),
        claims_controller(cluster, ClaimReconciler(none, none)),
        models_controller(cluster, models, Signal()),
        metadata_controller(cluster, metadata),
        groups_controller(cluster, none),
        inferenceservices_controller(cluster, ServiceReconciler(none, none), enabled=True),
        grants_controller(cluster, grants),
        volumes_controller(cluster, VolumeReconciler(none, none, Creations(provisioner, none, none), none)),
        waiting_pods_controller(cluster, WaitingPodsReconciler(none, none, none, WaitingPodsMetrics(none), none)),
        replica_claims_controller(
            ReplicaPods(),
            cluster.volumes.claim_changed,
            ReplicaPodReconciler(none, none, none, none, ReplicaPodMetrics(none), none, none),
        ),
        model_caches_controller(cluster, ModelCacheReconciler(none, none, none, 0.0)),
    ]


def nodes(*names: str) -> set[QueueKey]:
    return {NodeKey(name) for name in names}


def groups(*names: str) -> set[QueueKey]:
    return {GroupKey(name) for name in names}


def caches(*names: str) -> set[QueueKey]:
    return {ModelKey("ClusterModelCache", "", name) for name in names}


def cluster_models(*names: str) -> set[QueueKey]:
    return {ModelKey("ClusterBaseModel", "", name) for name in names}


GRANTS: set[QueueKey] = {GrantsKey()}
