"""Reads the cluster for an answer; never a Secret."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from controller.cli.why.seen import Declared, Leader, Seen, SeenNode, SeenPod
from controller.definitions import OUR_LABEL
from controller.definitions import PATH as DEFINITIONS_PATH
from controller.ownership import Ownership
from controller.placement.demand import Demand, base_model_demand, cache_demand
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, NODE_GROUP, Definition
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import PATH, ModelNode
from shared.kube.collection import decode, get_object, list_objects
from shared.kube.errors import NotFound, Refused
from shared.kube.lease import Lease
from shared.kube.objects import Object
from shared.kube.transport import Kube

_AGENTS = "app.kubernetes.io/component=agent"
T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads what an answer depends on; `namespace` is where Larder runs."""

    kube: Kube
    namespace: str
    now: Callable[[], datetime]

    async def pod(self, namespace: str, name: str) -> SeenPod | None:
        """Read a pod, None where there is none. Raises KubeError."""
        return await get_object(self.kube, f"/api/v1/namespaces/{namespace}/pods/{name}", SeenPod)

    async def look(self) -> Seen:
        """Read everything that is not a pod of a user. Raises KubeError."""
        nodes = await list_objects(self.kube, NODES, SeenNode)
        model_nodes = await self._ours(PATH, ModelNode, "modelnodes.larder.dev")
        kinds = (BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE)
        return Seen(
            models=tuple([m for d in kinds for m in await self._declared(d)]),
            groups=tuple(await self._ours(NODE_GROUP.path, ModelCacheNodeGroup, NODE_GROUP.name)),
            nodes=tuple(nodes),
            model_nodes={m.metadata.name: m for m in model_nodes},
            agents=await self._agents(),
            leader=await self._leader(),
            release_namespace=self.namespace,
        )

    async def _declared(self, definition: Definition) -> list[Declared]:
        ownership = await self._ownership(definition)
        if definition is CLUSTER_MODEL_CACHE:
            caches = await self._ours(definition.path, ClusterModelCache, definition.name)
            known = [(ownership.managed(definition.kind, c), c) for c in caches]
            return [_told(cache_demand(definition.kind, ours or c, files=None), ours or c, ours) for ours, c in known]
        models = await self._ours(definition.path, BaseModel, definition.name)
        found = [(ownership.managed(definition.kind, m), m) for m in models]
        return [_told(base_model_demand(definition.kind, ours or m, files=None), ours or m, ours) for ours, m in found]

    async def _ownership(self, definition: Definition) -> Ownership:
        """Return whose a kind is; ours for a user who may not read definitions."""
        ownership, (label, value) = Ownership(), OUR_LABEL
        try:
            served = await get_object(self.kube, f"{DEFINITIONS_PATH}/{definition.name}", Object)
        except Refused:
            return ownership
        foreign = served is not None and served.metadata.labels.get(label) != value
        ownership.learn(definition.kind, foreign=foreign)
        return ownership

    async def _ours(self, path: str, kind: type[T], name: str) -> list[T]:
        try:
            return await list_objects(self.kube, path, kind)
        except NotFound as error:
            raise NotFound(f"the cluster does not serve {name}; is Larder installed there? ({error})") from error

    async def _agents(self) -> dict[str, tuple[SeenPod, ...]]:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found: defaultdict[str, list[SeenPod]] = defaultdict(list)
        for pod in await list_objects(self.kube, path, SeenPod, {"labelSelector": _AGENTS}):
            found[pod.spec.node_name].append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    async def _leader(self) -> Leader | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/larder-controller"
        try:
            body = await self.kube.request("GET", path)
        except NotFound:
            return Leader()
        except Refused:
            return None  # a user who may not read it still gets the rest of the answer
        return leader_of(body, self.now())


def _told(demand: Demand, model: BaseModel | ClusterModelCache, ours: Object | None) -> Declared:
    states = {node.name: node for node in model.status.nodes}
    return Declared(demand, model.metadata, model.status, states, managed=ours is not None)


def leader_of(body: bytes, now: datetime) -> Leader:
    """Return who leads by a Lease; silent: twice its length has passed since it was renewed."""
    spec = decode(body, Lease).spec
    renewed = datetime.fromisoformat(spec.renew_time) if spec.renew_time else None
    silent = renewed is None or now - renewed > timedelta(seconds=2 * spec.lease_duration_seconds)
    return Leader(spec.holder_identity, silent)
