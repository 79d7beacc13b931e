"""The reflectors of a replica: every kind that decisions and admission read."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from controller.claims.job import COMPONENT
from controller.claims.kinds import JobPod
from controller.claims.triggers import ClaimTrigger, JobPodTrigger
from controller.inferenceservices.kinds import SERVICE_LABEL
from controller.inferenceservices.triggers import DeploymentTrigger
from controller.manager.metrics import Metrics
from controller.placement.demand import Declared
from controller.state.cluster_state import ClusterState
from controller.state.crds import Definitions
from controller.state.keys import QueueKey
from controller.state.ownership import ManagedSink
from shared.api.base_model import BaseModel, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import CLAIMS, DEPLOYMENTS, NODES, PODS, Node, PersistentVolumeClaim, Pod
from shared.api.inference_service import InferenceService
from shared.api.kinds import (
    BASE_MODEL,
    CLUSTER_BASE_MODEL,
    CLUSTER_MODEL_CACHE,
    INFERENCE_SERVICE,
    MODEL_NODE,
    NODE_GROUP,
)
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import ModelNode
from shared.internal_errors import InternalErrors, keep_running
from shared.kube.backoff import Backoff
from shared.kube.cache import Cache
from shared.kube.objects import Object
from shared.kube.reflector import Pace, Reflector
from shared.kube.transport import Kube
from shared.names import USER_LABEL

_PATIENT = Pace(backoff=Backoff(first_s=0.1, cap_s=15))  # a right that is missing comes with an upgrade
AGENT_LABEL = "app.kubernetes.io/component=agent"
_log = structlog.get_logger()
D = TypeVar("D", bound=Declared)


@dataclass(frozen=True, slots=True)
class Follower:
    """Keeps a world equal to the cluster. `triggers` only wake somebody: nothing waits for their lists."""

    definitions: Definitions
    reflectors: tuple[Reflector[Any], ...]
    errors: InternalErrors
    triggers: tuple[Reflector[Any], ...] = ()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_running("definitions", self.definitions.run, self.errors))
            for reflector in (*self.reflectors, *self.triggers):
                follow_it = partial(self._follow, reflector)
                tasks.create_task(keep_running("watch", follow_it, self.errors))

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


def follow(
    kube: Kube,
    cluster: ClusterState,
    namespace: str,
    metrics: Metrics,
    wake: Callable[[QueueKey], None] = lambda _: None,
    *,
    services: bool = False,
) -> Follower:
    """Return the reflectors that fill a world. Models come last: what they need to be judged by is there first.

    `wake` is told of each model on a claim whose claim or Job changed, and with `services` of each InferenceService
    whose Deployment did.
    """

    def trouble(path: str) -> Callable[[Exception, float], None]:
        resource = path.rpartition("/")[2]

        def tell(error: Exception, wait_s: float) -> None:
            metrics.watch_troubles.labels(resource).inc()
            _log.info("watch_interrupted", resource=resource, error=str(error), wait_s=round(wait_s, 2))

        return tell

    def managed(kind: str, cache: Cache[D]) -> ManagedSink[D]:
        return ManagedSink(kind, cluster.ownership, cache, partial(cluster.note_other, kind))

    groups = ManagedSink(NODE_GROUP.kind, cluster.ownership, cluster.groups, lambda *_: None)
    agents = f"/api/v1/namespaces/{namespace}/pods"
    return Follower(
        Definitions(kube, cluster.ownership),
        (
            Reflector(kube, NODES, Node, cluster.nodes, trouble(NODES)),
            Reflector(kube, NODE_GROUP.path, ModelCacheNodeGroup, groups, trouble(NODE_GROUP.path)),
            Reflector(kube, MODEL_NODE.path, ModelNode, cluster.model_nodes, trouble(MODEL_NODE.path)),
            Reflector(kube, agents, Pod, cluster.agents, trouble("agents"), label_selector=AGENT_LABEL),
            Reflector(kube, PODS, Pod, cluster.users, trouble("users"), label_selector=f"{USER_LABEL}=true"),
            Reflector(
                kube,
                BASE_MODEL.path,
                BaseModel,
                managed("BaseModel", cluster.base_models),
                trouble(BASE_MODEL.path),
            ),
            Reflector(
                kube,
                CLUSTER_BASE_MODEL.path,
                ClusterBaseModel,
                managed("ClusterBaseModel", cluster.cluster_base_models),
                trouble(CLUSTER_BASE_MODEL.path),
            ),
            Reflector(
                kube,
                CLUSTER_MODEL_CACHE.path,
                ClusterModelCache,
                managed("ClusterModelCache", cluster.caches),
                trouble(CLUSTER_MODEL_CACHE.path),
            ),
        ),
        metrics.internal_errors,
        (
            Reflector(kube, CLAIMS, PersistentVolumeClaim, ClaimTrigger(cluster, wake), trouble(CLAIMS), pace=_PATIENT),
            Reflector(
                kube,
                PODS,
                JobPod,
                JobPodTrigger(cluster, wake),
                trouble("jobpods"),
                label_selector="=".join(COMPONENT),
                pace=_PATIENT,
            ),
            *(_of_services(kube, cluster, trouble, wake) if services else ()),
        ),
    )


def _of_services(
    kube: Kube,
    cluster: ClusterState,
    trouble: Callable[[str], Callable[[Exception, float], None]],
    wake: Callable[[QueueKey], None],
) -> Iterator[Reflector[Any]]:
    """Yield what InferenceServices are followed by; nothing else waits for them, each wakes its own turn."""
    path, ours = (
        INFERENCE_SERVICE.path,
        ManagedSink(INFERENCE_SERVICE.kind, cluster.ownership, cluster.services, lambda *_: None),
    )
    yield Reflector(kube, path, InferenceService, ours, trouble(path), pace=_PATIENT)
    made = DeploymentTrigger(wake)
    yield Reflector(kube, DEPLOYMENTS, Object, made, trouble(DEPLOYMENTS), label_selector=SERVICE_LABEL, pace=_PATIENT)
