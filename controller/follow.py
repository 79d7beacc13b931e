"""The reflectors of a replica: every kind that decisions and admission read."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from controller.definitions import Definitions
from controller.metrics import Metrics
from controller.ownership import ManagedSink
from controller.placement.demand import Declared
from controller.world import World
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES, PODS, Node, Pod
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_NODE, NODE_GROUP
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.cache import Cache
from shared.kube.reflector import Reflector
from shared.kube.transport import Kube
from shared.names import USER_LABEL

AGENT_LABEL = "app.kubernetes.io/component=agent"
_log = structlog.get_logger()
D = TypeVar("D", bound=Declared)


@dataclass(frozen=True, slots=True)
class Follower:
    """Keeps a world equal to the cluster."""

    definitions: Definitions
    reflectors: tuple[Reflector[Any], ...]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.definitions.run())
            for reflector in self.reflectors:
                tasks.create_task(self._follow(reflector))

    async def _follow(self, reflector: Reflector[Any]) -> None:
        """A kind that has no definition has no objects; the reflector begins when somebody defines it."""
        served = self.definitions.served.get(reflector.kind.__name__)
        if served is not None:
            await self.definitions.synced.wait()
            if not served.is_set():
                reflector.synced.set()
                await served.wait()
        await reflector.run()

    async def synced(self) -> None:
        """Return once every list is there, and whose kinds they are is known."""
        await asyncio.gather(self.definitions.synced.wait(), *(r.synced.wait() for r in self.reflectors))

    @property
    def is_synced(self) -> bool:
        """Whether every list is there, and whose kinds they are is known."""
        return self.definitions.synced.is_set() and all(r.synced.is_set() for r in self.reflectors)


def follow(kube: Kube, world: World, namespace: str, metrics: Metrics) -> Follower:
    """Return the reflectors that fill a world. Models come last: what they need to be judged by is there first."""

    def trouble(path: str) -> Callable[[Exception, float], None]:
        resource = path.rpartition("/")[2]

        def tell(error: Exception, wait_s: float) -> None:
            metrics.watch_troubles.labels(resource).inc()
            _log.info("watch_interrupted", resource=resource, error=str(error), wait_s=round(wait_s, 2))

        return tell

    def managed(kind: str, cache: Cache[D]) -> ManagedSink[D]:
        return ManagedSink(kind, world.ownership, cache, partial(world.note_other, kind))

    groups = ManagedSink(NODE_GROUP.kind, world.ownership, world.groups, lambda *_: None)
    agents = f"/api/v1/namespaces/{namespace}/pods"
    return Follower(
        Definitions(kube, world.ownership),
        (
            Reflector(kube, NODES, Node, world.nodes, trouble(NODES)),
            Reflector(kube, NODE_GROUP.path, ModelCacheNodeGroup, groups, trouble(NODE_GROUP.path)),
            Reflector(kube, MODEL_NODE.path, ModelNode, world.model_nodes, trouble(MODEL_NODE.path)),
            Reflector(kube, agents, Pod, world.agents, trouble("agents"), label_selector=AGENT_LABEL),
            Reflector(kube, PODS, Pod, world.users, trouble("users"), label_selector=f"{USER_LABEL}=true"),
            Reflector(
                kube,
                BASE_MODEL.path,
                BaseModel,
                managed("BaseModel", world.base_models),
                trouble(BASE_MODEL.path),
            ),
            Reflector(
                kube,
                CLUSTER_BASE_MODEL.path,
                ClusterBaseModel,
                managed("ClusterBaseModel", world.cluster_base_models),
                trouble(CLUSTER_BASE_MODEL.path),
            ),
            Reflector(
                kube,
                CLUSTER_MODEL_CACHE.path,
                ClusterModelCache,
                managed("ClusterModelCache", world.caches),
                trouble(CLUSTER_MODEL_CACHE.path),
            ),
        ),
    )
