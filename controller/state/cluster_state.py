"""What the reflectors know, with the indexes that decisions need; everything here is memory, nothing waits."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from controller.placement.allowed import EVERY_SOURCE, AllowedSources
from controller.placement.claim_place import is_on
from controller.placement.demand import Declared, Demand, base_model_demand, cache_demand, conflict_of
from controller.placement.groups import Limits, groups_of, limits_of
from controller.placement.targets import is_target
from controller.state.agent_liveness import AgentLiveness
from controller.state.changes import TERMINAL, Changes, model_node_change, node_matters, user_matters
from controller.state.held import Held
from controller.state.index import Index
from controller.state.keys import EntryKey, ModelKey
from controller.state.mounts import mounts_model, mounts_snapshot, plain_paths
from controller.state.ownership import RECORD_ANNOTATION, Ownership
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import Node, Pod
from shared.api.inference_service import InferenceService
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import EntryStatus, ModelNode, Phase
from shared.kube.cache import Cache
from shared.kube.objects import Key, Object
from shared.names import model_id, short_id, uses_label
from shared.selection.choice import WHOLE, Selection

Clock = Callable[[], float]
Statuses = Mapping[EntryKey, EntryStatus]
_NO_STATUSES: Statuses = {}
_COMPLETE = (Phase.READY, Phase.REPAIRING)


@dataclass(slots=True)
class ClusterState:
    """The caches, and questions over them; `changed` tells of a change after every index knows it.

    They hold what Larder manages; `others` are the models of kinds that another product defined, left alone.
    """

    default_limits: Limits
    clock: Clock
    allowed: AllowedSources = EVERY_SOURCE  # what the models of namespaces may name
    files: Selection = WHOLE  # what models have that say nothing of their files
    store_root: str = "/var/lib/larder"  # where pods mount models from
    changed: Changes = field(default_factory=Changes, init=False)
    ownership: Ownership = field(default_factory=Ownership, init=False)
    nodes: Cache[Node] = field(init=False)
    model_nodes: Cache[ModelNode] = field(init=False)
    groups: Cache[ModelCacheNodeGroup] = field(init=False)
    base_models: Cache[BaseModel] = field(init=False)
    cluster_base_models: Cache[ClusterBaseModel] = field(init=False)
    caches: Cache[ClusterModelCache] = field(init=False)
    services: Cache[InferenceService] = field(init=False)
    agents: Cache[Pod] = field(init=False)
    users: Cache[Pod] = field(init=False)
    liveness: AgentLiveness = field(init=False)
    demands: dict[ModelKey, Demand] = field(default_factory=dict, init=False)
    others: dict[ModelKey, Declared] = field(default_factory=dict, init=False)
    _crowded: dict[str, dict[EntryKey, str]] = field(default_factory=dict, init=False)
    _keys_of_id: Index[str, ModelKey] = field(default_factory=Index, init=False)
    _nodes_of_claim: Index[str, str] = field(default_factory=Index, init=False)
    _users_at: Index[str, Key] = field(default_factory=Index, init=False)
    _membership: dict[str, tuple[Node, frozenset[str]]] = field(default_factory=dict, init=False)
    _told: dict[str, tuple[ModelNode, Statuses]] = field(default_factory=dict, init=False)
    _several: dict[str, tuple[ModelNode, Mapping[str, tuple[str, ...]]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.liveness = AgentLiveness(self.clock)
        self.nodes = Cache(self._node_changed)
        self.model_nodes = Cache(self._model_node_changed)
        self.groups = Cache(self._group_changed)
        self.base_models = Cache(partial(self._model_changed, "BaseModel"))
        self.cluster_base_models = Cache(partial(self._model_changed, "ClusterBaseModel"))
        self.caches = Cache(partial(self._model_changed, "ClusterModelCache"))
        self.services = Cache(self.changed.service.tell)
        self.agents = Cache(self._agent_changed)
        self.users = Cache(self._user_changed)

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
        return self.services.get(Key(namespace, name))

    def declared(self, key: ModelKey) -> BaseModel | ClusterModelCache | None:
        """Return a declared model, or None."""
        name = Key(key.namespace, key.name)
        match key.kind:
            case "BaseModel":
                return self.base_models.get(name)
            case "ClusterBaseModel":
                return self.cluster_base_models.get(name)
            case _:
                return self.caches.get(name)

    def note_other(self, kind: str, name: Key, found: Declared | None) -> None:
        """Take a model that Larder does not manage; None where there is none of that name, or it is managed."""
        key = ModelKey(kind, name.namespace, name.name)
        before = self.others.pop(key, None)
        if found is not None:
            self.others[key] = found
        self.changed.other.tell(key, before, found)

    def held(self) -> Held:
        """Return the objects whose files stay though Larder is kept from looking after them.

        Those whose source is no longer allowed, and those of a kind that is another product's by now. What was managed
        there because it asked for it has a record; when it asks no more, it is given back, and not held.
        """
        refused = [d for d in self.demands.values() if d.refused and not d.deleting]
        lost = [
            found.metadata
            for found in self.others.values()
            if found.metadata.deletion_timestamp is None and RECORD_ANNOTATION not in found.metadata.annotations
        ]
        return Held(
            frozenset(d.uid for d in refused) | {meta.uid for meta in lost},
            frozenset(d.id for d in refused) | {model_id(meta.namespace, meta.name) for meta in lost},
        )

    def keys_of_id(self, identity: str) -> list[ModelKey]:
        """Return the declared models that have a model id, or one that is cut to the same name."""
        return self._keys_of_id.of(short_id(identity))

    def same_id(self, identity: str) -> list[Demand]:
        """Return the demands that have a model id, or one that is cut to the same name."""
        return [self.demands[key] for key in self.keys_of_id(identity)]

    def conflict(self, demand: Demand) -> Demand | None:
        """Return the older demand that has this one's id for another source or other files, or None."""
        return conflict_of(demand, self.same_id(demand.id))

    def is_read_from_claim(self, key: ModelKey) -> bool:
        """Return whether a model is one on a claim, and not in a state that is the same for all models."""
        demand = self.demands.get(key)
        if demand is None or not demand.on_claim or demand.disabled or demand.deleting:
            return False
        return self.conflict(demand) is None

    def member_of(self, node: Node) -> frozenset[str]:
        """Return the names of the groups that a node belongs to; remembered for nodes as they are now."""
        meta = node.metadata
        known = self._membership.get(meta.name)
        if known is not None and known[0] is node:
            return known[1]
        names = frozenset(g.metadata.name for g in groups_of(self.groups, meta.name, meta.labels))
        if self.node(meta.name) is node:
            self._membership[meta.name] = node, names
        return names

    def groups_of(self, node: Node) -> list[ModelCacheNodeGroup]:
        """Return the groups that a node belongs to, by name."""
        return [group for name in sorted(self.member_of(node)) if (group := self.group(name)) is not None]

    def members_of(self, name: str) -> list[Node]:
        """Return the nodes of a group."""
        return [n for n in self.nodes if name in self.member_of(n)]

    def limits_of(self, node: Node) -> Limits:
        """Return what a node may use."""
        return limits_of(self.groups_of(node), self.default_limits)

    def is_limited(self, node: Node) -> bool:
        """Return whether some group of the node says how many of its nodes may download at one time."""
        return any(g.spec.max_concurrent_nodes for g in self.groups_of(node))

    def is_target(self, demand: Demand, node: Node) -> bool:
        """Return whether a node shall hold a model, as far as its object says."""
        return is_target(demand, self.member_of(node), node.metadata.name, node.metadata.labels)

    def targets_of(self, demand: Demand) -> list[Node]:
        """Return the nodes that shall hold a model."""
        return [n for n in self.nodes if self.is_target(demand, n)] if demand.stocked else []

    def demands_for(self, node: Node) -> list[Demand]:
        """Return the demands without a conflict that target a node."""
        aimed = (d for d in self.demands.values() if self.is_target(d, node))
        return [d for d in aimed if self.conflict(d) is None]

    def note_crowded(self, node_name: str, crowded: Mapping[EntryKey, str]) -> None:
        """Take which entries a node's ModelNode has no room for, and why; words change only with the entries."""
        before = self._crowded.pop(node_name, {})
        if crowded:
            self._crowded[node_name] = {key: before.get(key, why) for key, why in crowded.items()}
        for identity in {key[0] for key in before.keys() ^ crowded.keys()}:
            self.changed.crowded.tell(identity)

    def crowded_out(self, node_name: str, key: EntryKey) -> str:
        """Return why a node's ModelNode has no room for an entry; empty where it has."""
        return self._crowded.get(node_name, {}).get(key, "")

    def nodes_of_claim(self, uid: str) -> list[str]:
        """Return the nodes whose ModelNode lists a claim of this object."""
        return self._nodes_of_claim.of(uid)

    def sizes_listed(self, name: str) -> Mapping[EntryKey, int]:
        """Return the entries that a node's ModelNode lists, and the bytes of each; 0 where they are not known."""
        found = self.model_node(name)
        return {e.key: e.size for e in found.spec.entries} if found else {}

    def statuses_of(self, node: Node) -> Statuses:
        """Return the agent's words on every entry, unless they are another node's of the same name."""
        found = self.model_node(node.metadata.name)
        if found is None or found.status.node_uid != node.metadata.uid:
            return _NO_STATUSES
        known = self._told.get(node.metadata.name)
        if known is None or known[0] is not found:
            known = self._told[node.metadata.name] = found, {s.key: s for s in found.status.entries}
        return known[1]

    def complete_on(self, node: Node, identity: str, likely: Iterable[str]) -> tuple[str, ...]:
        """Return the revisions of a model that are complete on a node; `likely` are those that most nodes have."""
        several = self._several_on(node).get(identity)
        if several is not None:
            return several
        statuses = self.statuses_of(node)
        found = ((revision, statuses.get((identity, revision))) for revision in dict.fromkeys(likely))
        return tuple(revision for revision, status in found if status is not None and status.phase in _COMPLETE)

    def _several_on(self, node: Node) -> Mapping[str, tuple[str, ...]]:
        """Return the complete revisions of each model that has more than one entry on a node: few have, ever."""
        found, name = self.model_node(node.metadata.name), node.metadata.name
        if found is None or found.status.node_uid != node.metadata.uid:
            return {}
        known = self._several.get(name)
        if known is None or known[0] is not found:
            counts = Counter(status.id for status in found.status.entries)
            ids = {identity for identity, count in counts.items() if count > 1}
            told = [s for s in found.status.entries if s.id in ids and s.phase in _COMPLETE] if ids else []
            revisions = {identity: tuple(s.revision for s in told if s.id == identity) for identity in ids}
            known = self._several[name] = found, revisions
        return known[1]

    def pods_of(self, identity: str, namespace: str) -> list[str]:
        """Return the watched pods that use any revision of a model, as `namespace/name`.

        `namespace` is that of the model, empty for one of the whole cluster: only pods of its own can use it.
        """
        using = (pod.metadata for pod in self.users if self.is_user(pod, identity))
        return sorted(f"{meta.namespace}/{meta.name}" for meta in using if namespace in ("", meta.namespace))

    def is_user(self, pod: Pod, identity: str) -> bool:
        """Return whether a pod has not ended and mounts a model; the label alone could be anybody's."""
        if pod.status.phase in TERMINAL or uses_label(identity) not in pod.metadata.labels:
            return False
        if mounts_model(plain_paths(pod.spec.host_paths), identity, self.store_root):
            return True
        namespace, demands = pod.metadata.namespace, list(self.same_id(identity))
        return any(is_on(demand, namespace, claim) for claim in pod.spec.claims for demand in demands)

    def users_of(self, name: str, key: EntryKey) -> list[str]:
        """Return the watched pods on a node that mount a snapshot, as `namespace/name`."""
        using = (pod.metadata for pod, paths in self._mounts_at(name) if mounts_snapshot(paths, *key, self.store_root))
        return sorted(f"{meta.namespace}/{meta.name}" for meta in using)

    def first_user_of(self, identity: str, namespace: str) -> str:
        """Return the first by name of the watched pods of a namespace that use a model and have not ended, or ""."""
        mark = uses_label(identity)
        pods = (p for p in self.users if p.metadata.namespace == namespace and p.status.phase not in TERMINAL)
        return min((p.metadata.name for p in pods if mark in p.metadata.labels), default="")

    def in_use(self, name: str, model_node: ModelNode) -> frozenset[EntryKey]:
        """Return the entries of a node that the watched pods on it mount."""
        paths = frozenset[str]().union(*(paths for _, paths in self._mounts_at(name)))
        entries = (e.key for e in model_node.spec.entries) if paths else ()
        return frozenset(key for key in entries if mounts_snapshot(paths, *key, self.store_root))

    def _mounts_at(self, name: str) -> Iterator[tuple[Pod, frozenset[str]]]:
        """Yield the watched pods on a node that have not ended, with the directories that they mount."""
        pods = (pod for at in self._users_at.of(name) if (pod := self.users.get(at)) is not None)
        yield from ((pod, plain_paths(pod.spec.host_paths)) for pod in pods if pod.status.phase not in TERMINAL)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None:
            self._membership.pop(before.metadata.name, None)
            if after is None:
                self.liveness.forget(before.metadata.name)
                self._crowded.pop(before.metadata.name, None)
        if node_matters(before, after):
            self.changed.node.tell(before, after)

    def _model_node_changed(self, before: ModelNode | None, after: ModelNode | None) -> None:
        known = after or before
        if known is not None:
            self._nodes_of_claim.move(known.metadata.name, _claims(before), _claims(after))
            self._told.pop(known.metadata.name, None)
            self._several.pop(known.metadata.name, None)
        if (change := model_node_change(before, after)) is not None:
            self.changed.model_node.tell(change)

    def _group_changed(self, before: ModelCacheNodeGroup | None, after: ModelCacheNodeGroup | None) -> None:
        if before is None or after is None or before.spec != after.spec:
            self._membership.clear()
            self.changed.group.tell(before, after)

    def _agent_changed(self, before: Pod | None, after: Pod | None) -> None:
        for name in self.liveness.change(before, after):
            self.changed.agent.tell(name)

    def _user_changed(self, before: Pod | None, after: Pod | None) -> None:
        known = after or before
        if known is not None:
            self._users_at.move(known.key, _place(before), _place(after))
        if user_matters(before, after):
            self.changed.user.tell(before, after)

    def _model_changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        known = after or before
        if known is None:
            return
        key = ModelKey(kind, known.metadata.namespace, known.metadata.name)
        old, new = self.demands.pop(key, None), _demand(kind, after, self.allowed, self.files)
        if new is not None:
            self.demands[key] = new
        self._keys_of_id.move(key, (short_id(old.id),) if old else (), (short_id(new.id),) if new else ())
        self.changed.model.tell(key, old, new)


def _demand(kind: str, declared: Object | None, allowed: AllowedSources, files: Selection) -> Demand | None:
    match declared:
        case BaseModel():
            return base_model_demand(kind, declared, allowed, files)
        case ClusterModelCache():
            return cache_demand(kind, declared, files)
        case _:
            return None


def _claims(model_node: ModelNode | None) -> Iterable[str]:
    return (c.uid for e in model_node.spec.entries for c in e.claims) if model_node else ()


def _place(pod: Pod | None) -> Iterable[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()
