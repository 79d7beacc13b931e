"""Live reads of what the reflectors also hold, for decisions that must not rest on a stale memory."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from controller.placement.demand import Demand, base_model_demand, cache_demand
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE
from shared.kube.objects import Object, Page
from shared.kube.transport import Kube

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Live:
    """Reads every declared model from the API server."""

    kube: Kube

    async def demands(self) -> list[Demand]:
        """Return what all declared models ask for now; raises KubeError, and then nothing is known."""
        base, cluster, caches = await asyncio.gather(
            self._list(BASE_MODEL.path, BaseModel),
            self._list(CLUSTER_BASE_MODEL.path, ClusterBaseModel),
            self._list(CLUSTER_MODEL_CACHE.path, ClusterModelCache),
        )
        return [
            *(base_model_demand("BaseModel", m) for m in base),
            *(base_model_demand("ClusterBaseModel", m) for m in cluster),
            *(cache_demand("ClusterModelCache", c) for c in caches),
        ]

    async def _list(self, path: str, kind: type[T]) -> list[T]:
        page = msgspec.json.decode(await self.kube.request("GET", path), type=Page)
        return [msgspec.json.decode(item, type=kind) for item in page.items]
