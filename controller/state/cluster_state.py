"""The cached cluster state with the indexes that decisions need; all of it is in memory, nothing blocks."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import partial

from controller.placement.allowed_sources import EVERY_SOURCE, AllowedSources
from controller.placement.demand import Demand
from controller.placement.groups import NodeLimits
from controller.placement.targets import is_target
from controller.state.changes import (
    Changes,
    changed_snapshot_labels,
    model_node_change,
    model_pod_matters,
    node_matters,
)
from controller.state.dra.watched_claims import WatchedResourceClaims
from controller.state.index import Index
from controller.state.keys import EntryKey, ModelKey
from controller.state.kinds.ownership import Ownership
from controller.state.models.declared_models import DeclaredModels
from controller.state.models.retired_revisions import RetiredRevisions
from controller.state.nodes.agent_liveness import AgentLiveness
from controller.state.nodes.entry_statuses import EntryStatuses
from controller.state.nodes.listed_entries import ListedEntries
from controller.state.nodes.membership import Membership
from controller.state.nodes.unplaced import UnplacedEntries
from controller.state.pods.model_volumes import ModelVolumes
from controller.state.pods.pod_users import PodUsers
from controller.state.pods.waiting_pods import WaitingPods
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import Node, Pod
from shared.api.inference_service import InferenceService
from shared.api.model_cache import ModelCache
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.cache import Cache
from shared.kube.objects import Key
from shared.selection.choice import WHOLE, Selection

Clock = Callable[[], float]


@dataclass(slots=True)
class ClusterState:
    """The caches and their indexes; `changed` signals a change after every index is up to date.

    The caches hold what Larder manages.
    """

    default_limits: NodeLimits
    clock: Clock
    allowed: InitVar[AllowedSources] = EVERY_SOURCE  # sources that namespaced models may name
    files: InitVar[Selection] = WHOLE  # default for models that do not select files themselves
    store_root: str = "/var/lib/larder"  # where pods mount models from
    changed: Changes = field(default_factory=Changes, init=False)
    ownership: Ownership = field(default_factory=Ownership, init=False)
    nodes: Cache[Node] = field(init=False)
    model_nodes: Cache[ModelNode] = field(init=False)
    groups: Cache[ModelCacheNodeGroup] = field(init=False)
    base_models: Cache[BaseModel] = field(init=False)
    cluster_base_models: Cache[ClusterBaseModel] = field(init=False)
    cluster_model_caches: Cache[ClusterModelCache] = field(init=False)
    model_caches: Cache[ModelCache] = field(init=False)
    inference_services: Cache[InferenceService] = field(init=False)
    agents: Cache[Pod] = field(init=False)
    model_pods: Cache[Pod] = field(init=False)
    injected_pods: Cache[Pod] = field(init=False)  # that mount Models
    models: DeclaredModels = field(init=False)
    liveness: AgentLiveness = field(init=False)
    membership: Membership = field(init=False)
    statuses: EntryStatuses = field(init=False)
    listed: ListedEntries = field(init=False)
    volumes: ModelVolumes = field(init=False)
    pod_users: PodUsers = field(init=False)
    waiting_pods: WaitingPods = field(default_factory=WaitingPods, init=False)
    retired_revisions: RetiredRevisions = field(init=False)
    unplaced: UnplacedEntries = field(init=False)
    resource_claims: WatchedResourceClaims = field(init=False)
    _model_caches_in: Index[str, Key] = field(default_factory=Index, init=False)

    def __post_init__(self, allowed: AllowedSources, files: Selection) -> None:
        self.liveness = AgentLiveness(self.clock)
        self.retired_revisions = RetiredRevisions(self.clock, self.waiting_pods.is_needed)
        self.models = DeclaredModels(allowed, files, self.changed, self.retired_revisions.on_change)
        self.nodes = Cache(self._node_changed)
        self.model_nodes = Cache(self._model_node_changed)
        self.groups = Cache(self._group_changed)
        self.base_models = Cache(partial(self.models.on_change, "BaseModel"))
        self.cluster_base_models = Cache(partial(self.models.on_change, "ClusterBaseModel"))
        self.cluster_model_caches = Cache(partial(self.models.on_change, "ClusterModelCache"))
        self.model_caches = Cache(self._model_cache_changed)
        self.inference_services = Cache(self.changed.inference_service.emit)
        self.agents = Cache(self._agent_changed)
        self.model_pods = Cache(self._model_pod_changed)
        self.injected_pods = Cache(lambda *_: None)
        self.membership = Membership(self.nodes, self.groups, self.default_limits)
        self.statuses = EntryStatuses(self.model_nodes)
        self.listed = ListedEntries(self.model_nodes)
        self.volumes = ModelVolumes()
        self.resource_claims = WatchedResourceClaims(self.changed.resource_claim_node.emit)
        self.pod_users = PodUsers(self.model_pods, self.store_root, self.models.same_id, self.volumes.paths_of)
        self.unplaced = UnplacedEntries(self.changed.unplaced)

    def node(self, name: str) -> Node | None:
        """Return the Node, or None."""
        return self.nodes.get(Key("", name))

    def model_node(self, name: str) -> ModelNode | None:
        """Return the ModelNode of a node, or None."""
        return self.model_nodes.get(Key("", name))

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Return the node group, or None."""
        return self.groups.get(Key("", name))

    def service(self, namespace: str, name: str) -> InferenceService | None:
        """Return the InferenceService, or None."""
        return self.inference_services.get(Key(namespace, name))

    def model_caches_in(self, namespace: str) -> list[ModelCache]:
        """Return the ModelCaches of a namespace."""
        found = (self.model_caches.get(key) for key in self._model_caches_in.of(namespace))
        return [cache for cache in found if cache is not None]

    def declared(self, key: ModelKey) -> BaseModel | ClusterModelCache | None:
        """Return a declared model, or None."""
        name = Key(key.namespace, key.name)
        match key.kind:
            case "BaseModel":
                return self.base_models.get(name)
            case "ClusterBaseModel":
                return self.cluster_base_models.get(name)
            case _:
                return self.cluster_model_caches.get(name)

    def is_target(self, demand: Demand, node: Node) -> bool:
        """Return whether a node should hold a model according to its object."""
        return is_target(demand, self.membership.of(node), node.metadata.name, node.metadata.labels)

    def targets_of(self, demand: Demand) -> list[Node]:
        """Return the nodes that should hold a model."""
        return [n for n in self.nodes if self.is_target(demand, n)] if demand.placeable else []

    def demands_for(self, node: Node) -> list[Demand]:
        """Return the demands that target a node and have no conflict."""
        targeting = (d for d in self.models.demands.values() if self.is_target(d, node))
        return [d for d in targeting if self.models.conflict(d) is None]

    def may_restore(self, key: EntryKey) -> bool:
        """Return whether a node may get a revision that another node lists: it serves, or did until recently.

        Otherwise a tenant could bring old files to every node, with pods that name old revisions.
        """
        serves = any(d.id == key[0] and d.serving == key[1] for d in self.models.same_id(key[0]))
        return key in self.listed and (serves or self.retired_revisions.is_recent(key))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None:
            self.membership.forget(before.metadata.name)
            if after is None:
                self.liveness.forget(before.metadata.name)
                self.unplaced.forget(before.metadata.name)
        if node_matters(before, after):
            self.changed.node.emit(before, after)
        if labels := changed_snapshot_labels(before, after):
            self.changed.snapshot_labels.emit(labels)

    def _model_node_changed(self, before: ModelNode | None, after: ModelNode | None) -> None:
        known = after or before
        if known is not None:
            self.listed.on_change(before, after)
            self.statuses.forget(known.metadata.name)
        if (change := model_node_change(before, after)) is not None:
            self.changed.model_node.emit(change)

    def _group_changed(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> None:
        if before is None or after is None or before.spec != after.spec:
            self.membership.clear()
            self.changed.group.emit(before, after)

    def _agent_changed(self, before: Pod | None, after: Pod | None) -> None:
        for name in self.liveness.change(before, after):
            self.changed.agent.emit(name)
        if after is None and before is not None and self.node(before.spec.node_name) is None:
            self.liveness.forget(before.spec.node_name)

    def _model_pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        self.pod_users.on_change(before, after)
        self.volumes.on_pod_change(before, after)
        self.waiting_pods.on_change(before, after)
        if model_pod_matters(before, after):
            self.changed.model_pod.emit(before, after)

    def _model_cache_changed(self, before: ModelCache | None, after: ModelCache | None) -> None:
        known = after or before
        if known is not None:
            namespace = known.metadata.namespace
            self._model_caches_in.update(known.key, (namespace,) if before else (), (namespace,) if after else ())
            self.changed.model_cache.emit(before, after)
