"""Reads the cluster for a diagnosis; never a Secret."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import quote

from controller.cli.why.kinds import ObservedNode, ObservedPod
from controller.cli.why.view import ClusterView, DeclaredModel, LeaseHolder
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import base_model_demand, cache_demand
from controller.state.kinds.crds import OUR_LABEL
from controller.state.kinds.crds import PATH as DEFINITIONS_PATH
from controller.state.kinds.ownership import Ownership
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import NODES, pods_in
from shared.api.kinds import CLUSTER_MODEL_CACHE, MODEL, MODEL_CACHE, MODEL_KINDS, MODEL_NODE, NODE_GROUP, Definition
from shared.api.model import Model
from shared.api.model_cache import ModelCache
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import PATH, ModelNode
from shared.kube.collection import decode, get_object, list_objects
from shared.kube.errors import NotFound, Refused
from shared.kube.lease import Lease
from shared.kube.objects import Object
from shared.kube.transport import Kube

_AGENTS = "app.kubernetes.io/component=agent"
T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads the input of a diagnosis; `namespace` is where Larder runs."""

    kube: Kube
    namespace: str
    now: Callable[[], datetime]

    async def view(self, namespace: str = "") -> ClusterView:
        """Read everything that this user may list, except users' pods.

        BaseModels are read at least in `namespace`. Raises KubeError.
        """
        hidden: dict[str, Refused] = {}
        model_nodes = await listed_unless_forbidden(
            self._ours(PATH, ModelNode, MODEL_NODE.name), MODEL_NODE.plural, hidden
        )
        declared = [
            await listed_unless_forbidden(self._declared(kind, namespace), kind.plural, hidden) for kind in MODEL_KINDS
        ]
        groups = self._ours(NODE_GROUP.path, ModelCacheNodeGroup, NODE_GROUP.name)
        return ClusterView(
            models=tuple(model for kind in declared for model in kind),
            groups=tuple(await listed_unless_forbidden(groups, NODE_GROUP.plural, hidden)),
            nodes=tuple(await listed_unless_forbidden(list_objects(self.kube, NODES, ObservedNode), "nodes", hidden)),
            model_nodes={m.metadata.name: m for m in model_nodes},
            agents=_by_node(await listed_unless_forbidden(self._agents(), "agents", hidden)),
            leader=await self._leader(),
            release_namespace=self.namespace,
            hidden=hidden,
        )

    async def model_cache(self, namespace: str, name: str) -> ModelCache | None:
        """Return a ModelCache, or None if it does not exist. Raises KubeError."""
        return await get_object(self.kube, f"{MODEL_CACHE.path_in(namespace)}/{quote(name, safe='')}", ModelCache)

    async def model_object(self, namespace: str, name: str) -> Model | None:
        """Return a Model, or None if it does not exist. Raises KubeError."""
        return await get_object(self.kube, f"{MODEL.path_in(namespace)}/{quote(name, safe='')}", Model)

    async def _declared(self, definition: Definition, namespace: str) -> list[DeclaredModel]:
        try:
            return await self._declared_at(definition.path, definition)
        except Refused:
            if not definition.namespaced or not namespace:
                raise
            return await self._declared_at(definition.path_in(namespace), definition)

    async def _declared_at(self, path: str, definition: Definition) -> list[DeclaredModel]:
        ownership = await self._ownership(definition)
        if definition is CLUSTER_MODEL_CACHE:
            caches = await self._ours(path, ClusterModelCache, definition.name)
            known = [(ownership.managed(definition.kind, c), c) for c in caches]
            return [
                _declared_model(cache_demand(definition.kind, ours or c, files=None), ours or c, ours)
                for ours, c in known
            ]
        models = await self._ours(path, BaseModel, definition.name)
        found = [(ownership.managed(definition.kind, m), m) for m in models]
        return [
            _declared_model(base_model_demand(definition.kind, ours or m, files=None), ours or m, ours)
            for ours, m in found
        ]

    async def _ownership(self, definition: Definition) -> Ownership:
        """Return the product that owns a kind; Larder if the user may not read CustomResourceDefinitions."""
        ownership, (label, value) = Ownership(), OUR_LABEL
        try:
            served = await get_object(self.kube, f"{DEFINITIONS_PATH}/{definition.name}", Object)
        except Refused:
            return ownership
        foreign = served is not None and served.metadata.labels.get(label) != value
        ownership.set_foreign(definition.kind, foreign=foreign)
        return ownership

    async def _ours(self, path: str, kind: type[T], name: str) -> list[T]:
        try:
            return await list_objects(self.kube, path, kind)
        except NotFound as error:
            advice = "install the chart larder-crds, or choose another --context"
            raise NotFound(f"the cluster does not serve {name}; {advice} ({error})") from error

    async def _agents(self) -> list[ObservedPod]:
        path = pods_in(self.namespace)
        return await list_objects(self.kube, path, ObservedPod, {"labelSelector": _AGENTS})

    async def _leader(self) -> LeaseHolder | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/larder-controller"
        try:
            body = await self.kube.request("GET", path)
        except NotFound:
            return LeaseHolder()
        except Refused:
            return None  # without permission the user still gets the rest of the answer
        return leader_of(body, self.now())


async def listed_unless_forbidden(reading: Awaitable[list[R]], what: str, hidden: dict[str, Refused]) -> list[R]:
    """Return the objects; if this user may not list them, return nothing and add a note to `hidden`."""
    return await read_unless_forbidden(reading, what, hidden) or []


async def read_unless_forbidden(reading: Awaitable[R], what: str, hidden: dict[str, Refused]) -> R | None:
    """Return the object; if this user may not read it, return None and add a note to `hidden`."""
    try:
        return await reading
    except Refused as error:
        if not error.is_forbidden:
            raise
        hidden[what] = error
        return None


def _by_node(agents: Iterable[ObservedPod]) -> dict[str, tuple[ObservedPod, ...]]:
    found: defaultdict[str, list[ObservedPod]] = defaultdict(list)
    for pod in agents:
        found[pod.spec.node_name].append(pod)
    return {name: tuple(pods) for name, pods in found.items()}


def _declared_model(demand: Demand, model: BaseModel | ClusterModelCache, ours: Object | None) -> DeclaredModel:
    states = {node.name: node for node in model.status.nodes}
    return DeclaredModel(demand, model.metadata, model.status, states, managed=ours is not None)


def leader_of(body: bytes, now: datetime) -> LeaseHolder:
    """Return the leader according to a Lease, which counts as expired if not renewed for twice its duration."""
    spec = decode(body, Lease).spec
    renewed = datetime.fromisoformat(spec.renew_time) if spec.renew_time else None
    expired = renewed is None or now - renewed > timedelta(seconds=2 * spec.lease_duration_seconds)
    return LeaseHolder(spec.holder_identity, expired)
