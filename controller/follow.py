"""The reflectors of a replica: every kind that decisions and admission read."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from controller.metrics import Metrics
from controller.world import World
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES, PODS, Node, Pod
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_NODE, NODE_GROUP
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.kube.reflector import Reflector
from shared.kube.transport import Kube
from shared.names import USER_LABEL

AGENT_LABEL = "app.kubernetes.io/component=agent"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Follower:
    """Keeps a world equal to the cluster."""

    reflectors: tuple[Reflector[Any], ...]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run())

    async def synced(self) -> None:
        """Return once every list is there."""
        await asyncio.gather(*(r.synced.wait() for r in self.reflectors))

    @property
    def is_synced(self) -> bool:
        """Whether every list is there."""
        return all(r.synced.is_set() for r in self.reflectors)


def follow(kube: Kube, world: World, namespace: str, metrics: Metrics) -> Follower:
    """Return the reflectors that fill a world. Models come last: what they need to be judged by is there first."""

    def trouble(path: str) -> Callable[[Exception, float], None]:
        resource = path.rpartition("/")[2]

        def tell(error: Exception, wait_s: float) -> None:
            metrics.watch_troubles.labels(resource).inc()
            _log.info("watch_interrupted", resource=resource, error=str(error), wait_s=round(wait_s, 2))

        return tell

    agents = f"/api/v1/namespaces/{namespace}/pods"
    return Follower(
        (
            Reflector(kube, NODES, Node, world.nodes, trouble(NODES)),
            Reflector(kube, NODE_GROUP.path, ModelCacheNodeGroup, world.groups, trouble(NODE_GROUP.path)),
            Reflector(kube, MODEL_NODE.path, ModelNode, world.model_nodes, trouble(MODEL_NODE.path)),
            Reflector(kube, agents, Pod, world.agents, trouble("agents"), label_selector=AGENT_LABEL),
            Reflector(kube, PODS, Pod, world.users, trouble("users"), label_selector=f"{USER_LABEL}=true"),
            Reflector(kube, BASE_MODEL.path, BaseModel, world.base_models, trouble(BASE_MODEL.path)),
            Reflector(
                kube,
                CLUSTER_BASE_MODEL.path,
                ClusterBaseModel,
                world.cluster_base_models,
                trouble(CLUSTER_BASE_MODEL.path),
            ),
            Reflector(
                kube, CLUSTER_MODEL_CACHE.path, ClusterModelCache, world.caches, trouble(CLUSTER_MODEL_CACHE.path)
            ),
        )
    )
