"""Which InferenceServices use a model, read live, because a deletion must not rest on a cache."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from controller.inferenceservices.kserve import (
    KSERVE_PATHS,
    KindOf,
    KServeService,
    in_namespace,
    kserve_services_with,
    nothing_known,
    read_service,
)
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import model_cache_demand
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.models.service_references import services_with
from controller.state.shared_read import SharedRead
from shared.api.inference_service import InferenceService
from shared.api.kinds import CLUSTER_MODEL_CACHE, INFERENCE_SERVICE, MODEL_CACHE
from shared.kube.collection import decode, list_objects, pages
from shared.kube.errors import NotFound, Refused
from shared.kube.transport import Kube


@dataclass(slots=True)
class ServiceUsers:
    """Lists our services if we own the kind and the feature is on, and KServe's if they are served.

    However many models are queried concurrently, each collection is listed once for all of them.
    """

    kube: Kube
    cluster: ClusterState
    enabled: bool
    _ours: SharedRead[list[InferenceService]] = field(init=False)
    _of_kserve: SharedRead[list[KServeService]] = field(init=False)

    def __post_init__(self) -> None:
        self._ours = SharedRead(partial(list_objects, self.kube, INFERENCE_SERVICE.path, InferenceService))
        self._of_kserve = SharedRead(self._list_kserve)

    async def list_services(self, key: ModelKey, kind_of: KindOf = nothing_known) -> list[str]:
        """Return the services that use a model, as `namespace/name`. Raises KubeError.

        `kind_of` returns what a path is in a cache.
        """
        if key.kind == MODEL_CACHE.kind:
            return await self._using_model_cache(key, kind_of)
        demand = self.cluster.models.demands.get(key)
        if demand is None:
            return []
        if key.kind != CLUSTER_MODEL_CACHE.kind:
            return sorted(await self._using(demand))
        services = await self._of_kserve.get()
        return sorted(kserve_services_with(demand, services, self._usable_caches(), kind_of))

    async def _using_model_cache(self, key: ModelKey, kind_of: KindOf) -> list[str]:
        """Return KServe's services of the namespace that get a ModelCache."""
        caches = [model_cache_demand(cache) for cache in self.cluster.model_caches_in(key.namespace)]
        demand = next((cache for cache in caches if cache.name == key.name), None)
        if demand is None or not demand.uri:
            return []
        services = [s for s in await self._list_kserve(key.namespace) if s.namespace == key.namespace]
        usable = [*self._usable_caches(), *(cache for cache in caches if cache.serving and not cache.deleting)]
        return sorted(kserve_services_with(demand, services, usable, kind_of))

    async def _using(self, demand: Demand) -> list[str]:
        if not self.enabled or self.cluster.ownership.is_foreign(INFERENCE_SERVICE.kind):
            return []
        using = services_with(demand, await self._list_ours(demand.namespace), self.cluster.models.demands.values())
        return [f"{service.metadata.namespace}/{service.metadata.name}" for service in using]

    async def _list_ours(self, namespace: str) -> list[InferenceService]:
        """Return the services that may name a model; only those of its namespace, if it has one.

        Anyone who may delete a model can repeat the request, so its cost must not affect other namespaces.
        """
        if not namespace:
            return await self._ours.get()
        return await list_objects(self.kube, INFERENCE_SERVICE.path_in(namespace), InferenceService)

    async def _list_kserve(self, namespace: str = "") -> list[KServeService]:
        """Return KServe's services, those of one namespace if it is given."""
        return [
            service
            for paths in KSERVE_PATHS
            for service in await self._of_kind([in_namespace(path, namespace) for path in paths])
        ]

    async def _of_kind(self, paths: Sequence[str]) -> list[KServeService]:
        """Return all objects of a kind, none if it is not served; a forbidden list is an error, not an empty result."""
        for path in paths:
            try:
                listed = (raw async for page in pages(self.kube, path) for raw in page.items)
                return [read_service(decode(raw, dict[str, Any])) async for raw in listed]
            except NotFound:
                continue
            except Refused as error:
                raise Refused(f"{error}; the controller's ClusterRole must let it list {path}", error.code) from error
        return []

    def _usable_caches(self) -> list[Demand]:
        """Return the caches that admission would give to pods, each with those of its groups that have nodes."""
        caches = [d for d in self.cluster.models.demands.values() if d.kind == CLUSTER_MODEL_CACHE.kind]
        with_nodes = {group for cache in caches for group in cache.groups if self.cluster.membership.members_of(group)}
        ready = (c for c in caches if c.placeable and c.serving and self.cluster.models.conflict(c) is None)
        held = (replace(c, groups=tuple(group for group in c.groups if group in with_nodes)) for c in ready)
        return [cache for cache in held if cache.groups]
