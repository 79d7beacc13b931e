"""The informers that fill the cluster state, for every kind that several features read."""

from functools import partial
from typing import Any, TypeVar

from controller.placement.demand_of_kind import Declared
from controller.placement.volume_names import VOLUME_LABEL
from controller.state.cluster_state import ClusterState
from controller.state.informer import Informer
from controller.state.kinds.ownership import ManagedSink
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import (
    CLAIMS,
    NODES,
    PODS,
    VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    pods_in,
)
from shared.api.kinds import (
    BASE_MODEL,
    CLUSTER_BASE_MODEL,
    CLUSTER_MODEL_CACHE,
    MODEL_CACHE,
    MODEL_NODE,
    NODE_GROUP,
    Definition,
)
from shared.api.model_cache import ModelCache
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.dra import RESOURCE_CLAIMS, ResourceClaim
from shared.kube.cache import Cache
from shared.names import INJECTED_LABEL, USER_LABEL

AGENT_LABEL = "app.kubernetes.io/component=agent"
D = TypeVar("D", bound=Declared)


def cluster_informers(cluster: ClusterState, namespace: str, *, devices: bool) -> tuple[Informer[Any], ...]:
    """Return the informers of a cluster state, models last, because decisions about them need the others.

    `devices`: claims of Dynamic Resource Allocation may hold models.
    """
    groups = ManagedSink(NODE_GROUP.kind, cluster.ownership, cluster.groups, lambda *_: None)
    model_caches = ManagedSink(MODEL_CACHE.kind, cluster.ownership, cluster.model_caches, lambda *_: None)
    agents = pods_in(namespace)

    def models(definition: Definition, kind: type[D], cache: Cache[D]) -> Informer[D]:
        other = partial(cluster.models.set_unmanaged, definition.kind)
        sink = ManagedSink(definition.kind, cluster.ownership, cache, other)
        return Informer(definition.path, kind, sink, definition)

    return (
        Informer(NODES, Node, cluster.nodes),
        Informer(NODE_GROUP.path, ModelCacheNodeGroup, groups, NODE_GROUP),
        Informer(MODEL_NODE.path, ModelNode, cluster.model_nodes),
        Informer(agents, Pod, cluster.agents, label_selector=AGENT_LABEL, name="agents"),
        Informer(PODS, Pod, cluster.model_pods, label_selector=f"{USER_LABEL}=true", name="users"),
        Informer(PODS, Pod, cluster.injected_pods, label_selector=f"{INJECTED_LABEL}=true", name="injected_pods"),
        Informer(VOLUMES, PersistentVolume, cluster.volumes.volumes, label_selector=f"{VOLUME_LABEL}=true"),
        Informer(CLAIMS, PersistentVolumeClaim, cluster.volumes.claims),
        *((Informer(RESOURCE_CLAIMS, ResourceClaim, cluster.resource_claims, may_be_absent=True),) if devices else ()),
        models(BASE_MODEL, BaseModel, cluster.base_models),
        models(CLUSTER_BASE_MODEL, ClusterBaseModel, cluster.cluster_base_models),
        models(CLUSTER_MODEL_CACHE, ClusterModelCache, cluster.cluster_model_caches),
        Informer(MODEL_CACHE.path, ModelCache, model_caches, MODEL_CACHE),
    )
