"""The in-memory twin of the catalog."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.admission.catalog.port import CatalogModel, CatalogNode, PathKind, kind_of_path
from controller.admission.injectable_model import InjectableModel
from controller.placement.volume_names import SnapshotKey, has_plain_name, hashed_name, plain_name
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.errors import NameConflict
from shared.names import model_id


@dataclass(slots=True)
class MemoryCatalog:
    """The in-memory twin, filled by tests."""

    base_models: list[CatalogModel] = field(default_factory=list)
    cluster_caches: list[CatalogModel] = field(default_factory=list)
    own_caches: list[CatalogModel] = field(default_factory=list)
    injectable: dict[tuple[str, str], InjectableModel] = field(default_factory=dict)
    groups: dict[str, ModelCacheNodeGroup] = field(default_factory=dict)
    members: dict[str, list[CatalogNode]] = field(default_factory=dict)
    paths: dict[str, set[str]] = field(default_factory=dict)
    unread: dict[str, set[str]] = field(default_factory=dict)  # known only after they were read
    claims: dict[tuple[str, str], str] = field(default_factory=dict)  # the models of existing claims
    users: dict[str, list[str]] = field(default_factory=dict)
    services: dict[str, list[str]] = field(default_factory=dict)
    storage_classes: set[str] = field(default_factory=set)
    unseen_groups: set[str] = field(default_factory=set)  # found only by a live read
    foreign: set[str] = field(default_factory=set)
    full: set[tuple[str, str]] = field(default_factory=set)  # ids of models, and the nodes they do not fit on
    lookups: int = 0
    reads: int = 0

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """See `Catalog.base_model`."""
        self.lookups += 1
        named = [m for m in self.base_models if m.name == name and kind in ("", m.kind)]
        found = {m.namespace: m for m in named if m.namespace in (namespace, "")}
        return found.get(namespace) or found.get("")

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """See `Catalog.manages`."""
        return kind not in self.foreign or annotations.get("larder.dev/managed") == "true"

    def names(self, namespace: str) -> Iterable[str]:
        """See `Catalog.names`."""
        return {
            m.name
            for m in (*self.base_models, *self.cluster_caches, *self.own_caches)
            if m.namespace in ("", namespace)
        }

    def cluster_model_caches(self) -> Iterable[CatalogModel]:
        """See `Catalog.cluster_model_caches`."""
        self.lookups += 1
        return list(self.cluster_caches)

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """See `Catalog.model_caches`."""
        self.lookups += 1
        return [cache for cache in self.own_caches if cache.namespace == namespace]

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """See `Catalog.injectable_models`."""
        self.lookups += 1
        return {name: model for name in names if (model := self.injectable.get((namespace, name))) is not None}

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """See `Catalog.group`."""
        self.lookups += 1
        return self.groups.get(name)

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """See `Catalog.nodes_of_group`."""
        self.lookups += 1
        return self.members.get(name, [])

    def lacks_space(self, model: CatalogModel, node: str) -> bool:
        """See `Catalog.lacks_space`."""
        self.lookups += 1
        return (model.id, node) in self.full

    def claim_name(self, namespace: str, wanted: SnapshotKey, claim_revision: str) -> str:
        """See `Catalog.claim_name`."""
        plain = plain_name(wanted)
        free = self.claims.get((namespace, plain), str(wanted)) == str(wanted)
        return plain if free and has_plain_name(wanted, claim_revision) else hashed_name(wanted)

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """See `Catalog.kind_of_path`."""
        self.lookups += 1
        known = self.paths.get(model.id)
        return None if known is None else kind_of_path(known, path)

    async def read_files(self, model: CatalogModel) -> None:
        """See `Catalog.read_files`."""
        self.reads += 1
        if model.id in self.unread:
            self.paths[model.id] = self.unread.pop(model.id)

    async def group_names(self, names: Collection[str]) -> Sequence[str]:
        """See `Catalog.group_names`."""
        return sorted({*self.groups, *self.unseen_groups.intersection(names)})

    async def has_storage_class(self, name: str) -> bool:
        """See `Catalog.has_storage_class`."""
        return name in self.storage_classes

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """See `Catalog.live_users_of`."""
        return [user for user in self.users.get(identity, []) if user.startswith(f"{namespace}/" if namespace else "")]

    def users_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """See `Catalog.users_of`."""
        named = (m for m in (*self.base_models, *self.cluster_caches) if (m.namespace, m.name) == (namespace, name))
        if any(m.kind == kind and m.reason == NameConflict.__name__ for m in named):
            return []
        identity = model_id(namespace, name)
        return [user for user in self.users.get(identity, []) if user.startswith(f"{namespace}/" if namespace else "")]

    def users_of_claim(self, namespace: str, claim: str) -> Sequence[str]:
        """See `Catalog.users_of_claim`."""
        return self.users.get(f"{namespace}/{claim}", [])

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """See `Catalog.services_of`."""
        return self.services.get(f"{kind}/{namespace}/{name}", [])
