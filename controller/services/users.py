"""Which InferenceServices use a model, read live: what is about to be deleted is not asked of memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from controller.keys import ModelKey
from controller.placement.demand import Demand
from controller.services.references import kserve_services_with, services_with
from controller.world import World
from shared.api.inference_service import InferenceService
from shared.api.kinds import CLUSTER_MODEL_CACHE, INFERENCE_SERVICE
from shared.kube.collection import decode, list_objects, pages
from shared.kube.errors import NotFound, Refused
from shared.kube.transport import Kube

KSERVE_PATH = "/apis/serving.kserve.io/v1beta1/inferenceservices"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ServiceUsers:
    """Lists ours where the kind is ours and they are switched on, KServe's where they are served."""

    kube: Kube
    world: World
    enabled: bool

    async def of(self, key: ModelKey) -> list[str]:
        """Return the services that use a model, as `namespace/name`; raises KubeError."""
        demand = self.world.demands.get(key)
        if demand is None:
            return []
        found = await self._kserve(demand) if key.kind == CLUSTER_MODEL_CACHE.kind else await self._ours(demand)
        return sorted(found)

    async def _ours(self, demand: Demand) -> list[str]:
        if not self.enabled or self.world.ownership.is_foreign(INFERENCE_SERVICE.kind):
            return []
        listed = await list_objects(self.kube, INFERENCE_SERVICE.path, InferenceService)
        using = services_with(demand, listed, self.world.demands.values())
        return [f"{service.metadata.namespace}/{service.metadata.name}" for service in using]

    async def _kserve(self, cache: Demand) -> list[str]:
        try:
            listed = [decode(raw, dict[str, Any]) async for page in pages(self.kube, KSERVE_PATH) for raw in page.items]
        except NotFound:
            return []
        except Refused as error:
            _log.warning("kserve_services_unread", error=str(error), hint="the controller's ClusterRole lacks a rule")
            return []
        services: list[Mapping[str, Any]] = list(listed)
        return list(kserve_services_with(cache, services, self._usable_caches()))

    def _usable_caches(self) -> list[Demand]:
        """Return the caches that admission would give to pods, each with those of its groups that have nodes."""
        caches = [d for d in self.world.demands.values() if d.kind == CLUSTER_MODEL_CACHE.kind]
        with_nodes = {group for cache in caches for group in cache.groups if self.world.members_of(group)}
        ready = (c for c in caches if c.stocked and c.serving and self.world.conflict(c) is None)
        held = (replace(c, groups=tuple(group for group in c.groups if group in with_nodes)) for c in ready)
        return [cache for cache in held if cache.groups]
