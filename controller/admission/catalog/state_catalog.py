"""The admission catalog, answered from the cluster state and live reads."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from controller.admission.catalog.described_models import DescribedModels
from controller.admission.catalog.live_reads import LiveReads, model_read_limiter
from controller.admission.catalog.port import CatalogModel, CatalogNode, PathKind
from controller.admission.catalog.serving_files import ServingFiles
from controller.admission.injectable_model import InjectableModel
from controller.placement.demand import Demand
from controller.placement.volume_names import (
    MODEL_ANNOTATION,
    SnapshotKey,
    has_plain_name,
    hashed_name,
    is_our_claim,
    plain_name,
)
from controller.sources.manifests import Manifests
from controller.sources.rate_limits import KeyedRateLimiter
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.keys import ModelKey
from shared.api.core import TERMINAL_PHASES
from shared.api.kinds import CLUSTER_MODEL_CACHE, MODEL_CACHE
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import Phase
from shared.errors import InsufficientStorage, Unreachable
from shared.kube.errors import KubeError
from shared.kube.objects import Key, is_object_name
from shared.kube.transport import Kube
from shared.names import model_id

_MAX_GROUP_READS = 16


class ServiceLister(Protocol):
    """Which InferenceServices use a model."""

    async def list_services(self, key: ModelKey, kind_of: Callable[[Demand, str], PathKind | None]) -> Sequence[str]:
        """List the services that name a model, live.

        Args:
            key: The model.
            kind_of: Returns what a path is in a cache; None if its files are not known.

        Returns:
            The services, as `namespace/name`.

        Raises:
            KubeError: The API server did not answer.
        """


@dataclass(slots=True)
class StateCatalog:
    """Implements the catalog port on the informers' caches of this replica."""

    cluster: ClusterState
    kube: Kube
    manifests: Manifests
    services: ServiceLister
    devices: ResourceClaimUsers
    reads: KeyedRateLimiter = field(default_factory=model_read_limiter)
    _models: DescribedModels = field(init=False)
    _files: ServingFiles = field(init=False)
    _live: LiveReads = field(init=False)

    def __post_init__(self) -> None:
        self._models = DescribedModels(self.cluster)
        self._files = ServingFiles(self.cluster, self.manifests)
        self._live = LiveReads(self.cluster, self.kube, self.devices, self.reads)

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """See `Catalog.base_model`."""
        return self._models.base_model(namespace, name, kind)

    def names(self, namespace: str) -> Iterable[str]:
        """See `Catalog.names`."""
        return self._models.names(namespace)

    def cluster_model_caches(self) -> Iterable[CatalogModel]:
        """See `Catalog.cluster_model_caches`."""
        return self._models.cluster_model_caches()

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """See `Catalog.model_caches`."""
        return self._models.model_caches(namespace)

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """See `Catalog.kind_of_path`."""
        return self._files.kind_of_path(model, path)

    async def read_files(self, model: CatalogModel) -> None:
        """See `Catalog.read_files`."""
        await self._files.read(model)

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """See `Catalog.injectable_models`."""
        return await self._live.injectable_models(namespace, names)

    async def has_storage_class(self, name: str) -> bool:
        """See `Catalog.has_storage_class`."""
        return await self._live.has_storage_class(name)

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """See `Catalog.live_users_of`."""
        return await self._live.users_of(identity, namespace)

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Return a node group, or None."""
        return self.cluster.group(name)

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """Return the members of a node group."""
        return [CatalogNode(n.metadata.name, n.metadata.labels) for n in self.cluster.membership.members_of(name)]

    def lacks_space(self, model: CatalogModel, node: str) -> bool:
        """Return whether a node reports that the serving revision does not fit on it."""
        found = self.cluster.model_node(node)
        entries = found.status.entries if found is not None else ()
        key = (model.id, model.serving_revision)
        entry_status = next((e for e in entries if e.key == key), None)
        return entry_status is not None and (entry_status.phase, entry_status.reason) == (
            Phase.FAILED,
            InsufficientStorage.__name__,
        )

    def claim_name(self, namespace: str, wanted: SnapshotKey, claim_revision: str) -> str:
        """Return the name of the claim through which a namespace mounts a snapshot."""
        found = self.cluster.volumes.claims.get(Key(namespace, plain_name(wanted)))
        free = found is None or (
            is_our_claim(found)
            and found.metadata.deletion_timestamp is None
            and found.metadata.annotations.get(MODEL_ANNOTATION) == str(wanted)
        )
        return plain_name(wanted) if free and has_plain_name(wanted, claim_revision) else hashed_name(wanted)

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether Larder manages an object of this kind with these annotations."""
        return self.cluster.ownership.manages(kind, annotations)

    async def group_names(self, names: Collection[str]) -> Sequence[str]:
        """Return the names of the node groups; those of `names` missing from the cache are read live, one by one."""
        known = {group.metadata.name for group in self.cluster.groups}
        missing = [name for name in names if name not in known and is_object_name(name)][:_MAX_GROUP_READS]
        return sorted(known | {name for name in missing if await self._live.has_group(name)})

    def users_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the non-terminal pods that use any revision of a model, from the cache; the finalizer checks live."""
        demand = self.cluster.models.demands.get(ModelKey(kind, namespace, name))
        if demand is not None and self.cluster.models.is_shadowed(demand):
            return []
        return self.cluster.pod_users.pods_of(model_id(namespace, name), namespace)

    def users_of_claim(self, namespace: str, claim: str) -> Sequence[str]:
        """Return the non-terminal pods with a model that mount a claim, from the cache."""
        labelled = chain(self.cluster.model_pods, self.cluster.injected_pods)
        pods = (pod for pod in labelled if pod.metadata.namespace == namespace)
        using = (pod.metadata for pod in pods if claim in pod.spec.claims and pod.status.phase not in TERMINAL_PHASES)
        return sorted({f"{meta.namespace}/{meta.name}" for meta in using})

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the InferenceServices, including KServe's, that name a model, as `namespace/name`, listed live."""
        key = ModelKey(kind, namespace, name)
        if kind in (CLUSTER_MODEL_CACHE.kind, MODEL_CACHE.kind) and (cache := self._models.find(key)) is not None:
            await self.read_files(cache)
        try:
            return await self.services.list_services(key, self._kind_of_part)
        except KubeError as error:
            raise Unreachable(f"cannot list InferenceServices: {error}; try again") from error

    def _kind_of_part(self, cache: Demand, path: str) -> PathKind | None:
        found = self._models.find(ModelKey(cache.kind, cache.namespace, cache.name))
        return None if found is None else self.kind_of_path(found, path)
