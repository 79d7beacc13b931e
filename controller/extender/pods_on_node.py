"""The pods of our scheduler on one node, from the cache or from a live list."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.extender.accounts import DeviceAccounts, version_of
from controller.extender.device_objects import DevicePod
from controller.extender.requested_devices import allocated_devices
from controller.extender.reservations import DeviceReservation
from shared.api.core import PODS
from shared.devices.info import PodInfo
from shared.devices.scheduler import SCHEDULER_NAME
from shared.kube.cache import Cache
from shared.kube.collection import get_object, list_objects
from shared.kube.objects import Key
from shared.kube.transport import Kube


@dataclass(slots=True)
class PodsOnNode:
    """The pods on a node for one decision. Create it after reading the reservations; pods are listed at most once."""

    kube: Kube
    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    node: str
    _listed: list[DevicePod] | None = field(default=None, init=False)
    _live: dict[Key, DevicePod] = field(default_factory=dict, init=False)  # read because the cache did not suffice

    def known_devices(self, pods_seen: int) -> Mapping[str, PodInfo] | None:
        """Return the cached allocations by pod uid; None if the cache may be older than this resourceVersion."""
        account = self.accounts.node(self.node)
        return account.pods if account is not None and self.accounts.pods_version >= pods_seen else None

    async def listed_devices(self) -> dict[str, PodInfo]:
        """Return the allocations from a live list, by pod uid. Raises KubeError."""
        allocated = ((pod.metadata.uid, allocated_devices(pod)) for pod in await self._list())
        return {uid: info for uid, info in allocated if info is not None}

    async def listed_version(self) -> int:
        """Return the newest resourceVersion of a live list, 0 if it is empty. Raises KubeError."""
        return max(map(version_of, await self._list()), default=0)

    def node_of(self, pod: DevicePod) -> str:
        """Return the node that a pod is known to be on, perhaps bound by another replica; empty if it is on none."""
        found = self._live.get(pod.key) or self.pods.get(pod.key)
        return found.spec.node_name if found is not None and found.metadata.uid == pod.metadata.uid else ""

    async def reserved_for(self, entry: DeviceReservation, *, live: bool = False) -> DevicePod | None:
        """Return a reservation's pod, from the cache unless `live`; None if it is gone. Raises KubeError."""
        pod = self.pods.get(Key(entry.namespace, entry.name))
        if live or pod is None or pod.metadata.uid != entry.uid:
            pod = await get_object(self.kube, pod_path(entry.namespace, entry.name), DevicePod)
            if pod is not None:
                self._live[pod.key] = pod
        return pod if pod is not None and pod.metadata.uid == entry.uid else None

    async def _list(self) -> list[DevicePod]:
        if self._listed is None:
            query = {"fieldSelector": f"spec.nodeName={self.node},spec.schedulerName={SCHEDULER_NAME}"}
            self._listed = await list_objects(self.kube, PODS, DevicePod, query)
        return self._listed


def pod_path(namespace: str, name: str) -> str:
    """Return the API path of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
