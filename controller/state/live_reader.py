"""Live reads of cached objects, for decisions that must not depend on a stale cache."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.placement.allowed_sources import EVERY_SOURCE, AllowedSources
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import base_model_demand, cache_demand
from controller.placement.groups import groups_of, is_member, may_evict
from controller.placement.name_conflicts import conflict_of
from controller.placement.targets import is_target
from controller.state.keys import EntryKey, ModelKey
from controller.state.kinds.ownership import Ownership
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES, Node
from shared.api.kinds import DEFINITIONS, NODE_GROUP
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.kube.collection import get_object, list_objects
from shared.kube.objects import is_object_name
from shared.kube.transport import Kube
from shared.selection.choice import WHOLE, Selection

_DEFINITIONS = {d.kind: d for d in DEFINITIONS}


def object_path(key: ModelKey) -> str:
    """Return the API path of a declared model."""
    definition = _DEFINITIONS[key.kind]
    prefix = f"/apis/{definition.group}/{definition.version}"
    return f"{prefix}{f'/namespaces/{key.namespace}' if key.namespace else ''}/{definition.plural}/{key.name}"


def keys_of(identity: str) -> list[ModelKey]:
    """Return the keys of all objects that a model id can belong to; none if it is not a valid id."""
    namespace, _, name = identity.rpartition("_")
    if not is_object_name(name) or (namespace and not is_object_name(namespace)):
        return []
    if namespace:
        return [ModelKey("BaseModel", namespace, name)]
    return [ModelKey("ClusterBaseModel", "", name), ModelKey("ClusterModelCache", "", name)]


@dataclass(frozen=True, slots=True)
class LiveReader:
    """Reads from the API server; every method raises KubeError, and then nothing is known."""

    kube: Kube
    ownership: Ownership = field(default_factory=Ownership)
    allowed: AllowedSources = EVERY_SOURCE
    files: Selection = WHOLE

    async def demand(self, key: ModelKey) -> Demand | None:
        """Return what a declared model requests, or None if it does not exist or Larder does not manage it."""
        path = object_path(key)
        match key.kind:
            case "BaseModel":
                base = self.ownership.managed(key.kind, await get_object(self.kube, path, BaseModel))
                return base_model_demand(key.kind, base, self.allowed, self.files) if base else None
            case "ClusterBaseModel":
                cluster = self.ownership.managed(key.kind, await get_object(self.kube, path, ClusterBaseModel))
                return base_model_demand(key.kind, cluster, files=self.files) if cluster else None
            case _:
                cache = self.ownership.managed(key.kind, await get_object(self.kube, path, ClusterModelCache))
                return cache_demand(key.kind, cache, self.files) if cache else None

    async def node_uid(self, name: str) -> str:
        """Return the uid of a Node, or an empty string if it does not exist."""
        node = await get_object(self.kube, f"{NODES}/{name}", Node)
        return node.metadata.uid if node else ""

    async def read_wanted(self, node_name: str, entries: Iterable[EntryKey]) -> frozenset[EntryKey]:
        """Return the entries that some declared model wants on a node, or may turn out to want."""
        keys = frozenset(entries)
        node = await get_object(self.kube, f"{NODES}/{node_name}", Node)
        if node is None:
            return keys  # without the Node object, what it should hold is unknown
        by_id = {identity: await self._demands_for(node, identity) for identity in {key[0] for key in keys}}
        return frozenset(key for key in keys if any(_may_want(d, key) for d in by_id[key[0]]))

    async def read_protected(self, node_name: str, entries: Iterable[EntryKey]) -> frozenset[EntryKey]:
        """Return the entries that may not be evicted: a pinned model wants it, or a group forbids it."""
        keys = frozenset(entries)
        node = await get_object(self.kube, f"{NODES}/{node_name}", Node)
        if node is None or not may_evict(await self._groups_of(node)):
            return keys
        by_id = {identity: await self._demands_for(node, identity) for identity in {key[0] for key in keys}}
        return frozenset(key for key in keys if any(d.pinned and _may_want(d, key) for d in by_id[key[0]]))

    async def _groups_of(self, node: Node) -> list[ModelCacheNodeGroup]:
        found = await list_objects(self.kube, NODE_GROUP.path, ModelCacheNodeGroup)
        managed = (self.ownership.managed(NODE_GROUP.kind, group) for group in found)
        return groups_of((g for g in managed if g is not None), node.metadata.name, node.metadata.labels)

    async def _demands_for(self, node: Node, identity: str) -> list[Demand]:
        found = [d for key in keys_of(identity) if (d := await self.demand(key)) is not None]
        winners = [d for d in found if conflict_of(d, found) is None]
        return [d for d in winners if await self._is_target(d, node)]

    async def _is_target(self, demand: Demand, node: Node) -> bool:
        meta, member_of = node.metadata, set[str]()
        for name in demand.groups if demand.placeable else ():
            found = await get_object(self.kube, f"{NODE_GROUP.path}/{name}", ModelCacheNodeGroup)
            group = self.ownership.managed(NODE_GROUP.kind, found)
            if group is not None and is_member(group, meta.name, meta.labels):
                member_of.add(name)
        return is_target(demand, member_of, meta.name, meta.labels)


def _may_want(demand: Demand, key: EntryKey) -> bool:
    """Return whether a demand may want an entry: until it is resolved it may turn out to want any revision."""
    return demand.resolution is None or key[1] in (demand.resolution.revision, demand.serving)
