"""What admission reads live, because no informer has it or a cache may be behind. Failures are LarderErrors."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from controller.admission.injectable_model import InjectableModel, injectable_model
from controller.sources.rate_limits import KeyedRateLimiter, Rate
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.api.core import PODS, Pod, pods_in
from shared.api.kinds import MODEL, NODE_GROUP
from shared.api.model import Model
from shared.errors import Unreachable
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import KubeError
from shared.kube.objects import Object, is_object_name
from shared.kube.transport import Kube
from shared.names import uses_label

T = TypeVar("T", bound=Object)
_STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_READ_TIMEOUT_S = 2.0  # the API server waits 5 s for the webhook
_LONGEST_READS_S = 5.0  # for all Models of a pod; the API server waits 10 s for that webhook
_MODEL_READS = Rate(per_s=100, burst=1000)  # per namespace; each pod may name 64 Models
_log = structlog.get_logger()


def model_read_limiter() -> KeyedRateLimiter:
    """Return the budget of Model reads for each namespace."""
    return KeyedRateLimiter(_MODEL_READS, time.monotonic)


@dataclass(frozen=True, slots=True)
class LiveReads:
    """Reads Models, groups, storage classes and users from the Kubernetes API."""

    cluster: ClusterState
    kube: Kube
    devices: ResourceClaimUsers
    reads: KeyedRateLimiter

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """Return the Models of a namespace by name, read live up to the first that pods cannot mount."""
        found = dict[str, InjectableModel]()
        try:
            async with asyncio.timeout(_LONGEST_READS_S):
                for name in names:
                    self._count_read(namespace)
                    model = await self._read_model(namespace, name)
                    if model is None:
                        break
                    found[name] = injectable_model(model)
                    if not found[name].usable:
                        break
        except TimeoutError as error:
            message = f"the Kubernetes API did not return the Models within {_LONGEST_READS_S:.0f} s"
            raise Unreachable(message) from error
        return found

    async def has_group(self, name: str) -> bool:
        """Return whether there is a node group of that name that Larder manages."""
        path = f"{NODE_GROUP.path}/{name}"
        try:
            found = await get_object(self.kube, path, Object)
        except KubeError as error:
            raise Unreachable(f"cannot read {path} from the Kubernetes API: {error}; try again") from error
        return found is not None and self.cluster.ownership.manages(NODE_GROUP.kind, found.metadata.annotations)

    async def has_storage_class(self, name: str) -> bool:
        """Return whether there is a StorageClass of that name; True if the API server does not answer."""
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                return await get_object(self.kube, f"{_STORAGE_CLASSES}/{name}", Object) is not None
        except (KubeError, TimeoutError) as error:
            _log.warning("storage_class_unreadable", name=name, error=str(error))
            return True

    async def users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the pods that use any revision of a model, live, in its namespace if it has one."""
        path = pods_in(namespace) if namespace else PODS
        pods = await self._list(path, Pod, {"labelSelector": uses_label(identity)})
        using = {
            f"{p.metadata.namespace}/{p.metadata.name}" for p in pods if self.cluster.pod_users.is_user(p, identity)
        }
        return sorted(using | await self._holders_of(identity, namespace))

    async def _holders_of(self, identity: str, namespace: str) -> set[str]:
        """Return the pods that hold any revision of a model as a device."""
        entries = {e.key for n in self.cluster.model_nodes for e in n.spec.entries if e.id == identity}
        try:
            return set(await self.devices.of_model(entries, namespace))
        except KubeError as error:
            raise Unreachable(f"cannot list ResourceClaims from the Kubernetes API: {error}; try again") from error

    def _count_read(self, namespace: str) -> None:
        """Raise Unreachable if a namespace has used up its Model reads: others need the API server, too."""
        if wait_s := self.reads.draw(namespace):
            raise Unreachable(
                f"the pods of namespace {namespace} name more Models than Larder reads for one namespace "
                f"({_MODEL_READS.per_s:.0f} per second); try again in {math.ceil(wait_s)} s"
            )

    async def _read_model(self, namespace: str, name: str) -> Model | None:
        if not is_object_name(name):
            return None
        path = f"{MODEL.path_in(namespace)}/{name}"
        try:
            return await get_object(self.kube, path, Model)
        except KubeError as error:
            raise Unreachable(f"cannot read {path} from the Kubernetes API: {error}; try again") from error

    async def _list(self, path: str, kind: type[T], query: dict[str, str]) -> list[T]:
        try:
            return await list_objects(self.kube, path, kind, query)
        except KubeError as error:
            raise Unreachable(f"cannot list {path} from the Kubernetes API: {error}; try again") from error
