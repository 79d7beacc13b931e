"""Reserves devices of a node for a pod, so that no other replica gives them away while the binding is on its way."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import structlog

from controller.extender.accounts import DeviceAccounts, NodeAccount, version_of
from controller.extender.device_objects import DevicePod
from controller.extender.requested_devices import RequestedDevices, allocated_devices
from controller.extender.reservations import DeviceReservation, DeviceReservations, ReservationStore
from controller.extender.worker import DeviceWorker
from shared.api.core import PODS
from shared.devices.info import PodInfo
from shared.devices.scheduler import SCHEDULER_NAME
from shared.kube.cache import Cache
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import Conflict, KubeError
from shared.kube.objects import Key
from shared.kube.transport import Kube

_ATTEMPTS = 8  # to reserve, while others reserve devices of the same node
_ALLOCATION_S = 2.0
_log = structlog.get_logger("extender")


class NotBound(Exception):
    """The pod was not bound; the message reaches its events."""


@dataclass(slots=True)
class DeviceReserver:
    """Chooses devices that neither a pod on the node nor a reservation has, and reserves them.

    The pods on the node are known from memory, if that has every pod whose reservation was dropped because it is on the
    node (`pods_seen`); else they are listed live. Both are looked at after the reservations were read.
    """

    kube: Kube
    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    worker: DeviceWorker
    store: ReservationStore
    conflict: Callable[[], None] = lambda: None  # called when another replica was first
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def reserve(self, pod: DevicePod, requested: RequestedDevices, account: NodeAccount) -> PodInfo:
        """Reserve devices for a pod, and count it on the node. Raises NotBound, KubeError, NoAnswerInTime."""
        uid, node = pod.metadata.uid, account.name
        # Questions behind this one see the pod at once, although the choice may still change.
        chosen = await self.worker.run(lambda evaluator: evaluator.place(requested, node, uid), _ALLOCATION_S)
        if chosen is not None:
            self.accounts.assume(uid, node, chosen)
        lock = self._locks.setdefault(node, asyncio.Lock())
        try:
            async with lock:
                return await self._reserve(pod, requested, account)
        except BaseException:
            self.accounts.give_up(uid)
            raise

    async def give_back(self, pod: DevicePod, account: NodeAccount) -> None:
        """Remove the reservation of a pod that was not bound; if that fails, a later one on the node does."""
        self.accounts.give_up(pod.metadata.uid)
        lock = self._locks.setdefault(account.name, asyncio.Lock())
        try:
            async with lock:
                for _ in range(_ATTEMPTS):
                    reserved = await self.store.of(account.name, account.uid)
                    left = tuple(each for each in reserved.entries if each.uid != pod.metadata.uid)
                    try:
                        if left != reserved.entries:
                            await self.store.write(replace(reserved, entries=left))
                    except Conflict:
                        continue
                    return
        except KubeError as error:
            _log.info("reservation_left", node=account.name, error=str(error))

    async def _reserve(self, pod: DevicePod, requested: RequestedDevices, account: NodeAccount) -> PodInfo:
        for _ in range(_ATTEMPTS):
            reserved = await self.store.of(account.name, account.uid)
            try:
                return await self._try_reserve(pod, requested, reserved)
            except Conflict:
                self.conflict()
        raise NotBound(f"other replicas keep reserving devices of node {account.name}; the scheduler retries")

    async def _try_reserve(self, pod: DevicePod, requested: RequestedDevices, reserved: DeviceReservations) -> PodInfo:
        node, uid, metadata = reserved.node, pod.metadata.uid, pod.metadata
        kept = await self._kept(reserved, uid)
        mine = next((each for each in reserved.entries if each.uid == uid), None)
        if mine is not None and not self.store.is_expired(node, uid):
            info = mine.info  # an earlier binding may still arrive, with these devices
            if _requests(info) != _requests(requested.info):
                raise NotBound(
                    "an earlier binding of the pod, with other requests, may still arrive; the scheduler retries"
                )
        else:
            if not kept.version:  # what an earlier Lease said of pods on the node is not known
                kept = replace(kept, pods_seen=max(map(version_of, await self._listed(node)), default=0))
            info = await self._allocate(requested, kept, uid)
        self.accounts.assume(uid, node, info)
        entry = DeviceReservation(metadata.namespace, metadata.name, uid, info)
        await self.store.write(replace(kept, entries=(*kept.entries, entry)))
        return info

    async def _allocate(self, requested: RequestedDevices, kept: DeviceReservations, uid: str) -> PodInfo:
        """Choose devices by memory where that is fresh enough, and by a live list before a refusal."""
        node, reserved = kept.node, {each.uid: each.info for each in kept.entries}
        account = self.accounts.node(node)
        if account is None:
            raise NotBound(f"node {node} is gone")
        if self.accounts.pods_version >= kept.pods_seen:
            others = {other: info for other, info in account.pods.items() if other != uid}
            found = await self._choose(requested, node, others | reserved)
            if isinstance(found, PodInfo):
                return found
        found = await self._choose(requested, node, await self._bound(node) | reserved)
        if isinstance(found, str):
            raise NotBound(f"node {node} has no devices for the pod any more: {found}")
        return found

    async def _choose(self, requested: RequestedDevices, node: str, pods: Mapping[str, PodInfo]) -> PodInfo | str:
        return await self.worker.run(lambda evaluator: evaluator.allocate(requested, node, pods), _ALLOCATION_S)

    async def _bound(self, node: str) -> dict[str, PodInfo]:
        """Return what the pods on a node have, listed live."""
        allocated = ((pod.metadata.uid, allocated_devices(pod)) for pod in await self._listed(node))
        return {uid: info for uid, info in allocated if info is not None}

    async def _listed(self, node: str) -> list[DevicePod]:
        query = {"fieldSelector": f"spec.nodeName={node},spec.schedulerName={SCHEDULER_NAME}"}
        return await list_objects(self.kube, PODS, DevicePod, query)

    async def _kept(self, reserved: DeviceReservations, uid: str) -> DeviceReservations:
        """Return the reservations of other pods that are still needed."""
        kept, seen = list[DeviceReservation](), reserved.pods_seen
        for entry in reserved.entries:
            if entry.uid == uid or self.store.is_expired(reserved.node, entry.uid):
                continue
            pod = await self._pod(entry)
            if pod is None or pod.has_ended or pod.spec.node_name not in ("", reserved.node):
                continue
            if pod.spec.node_name and version_of(pod):
                seen = max(seen, version_of(pod))  # whoever has seen this knows that it is on the node
            else:
                kept.append(entry)
        return replace(reserved, entries=tuple(kept), pods_seen=seen)

    async def _pod(self, entry: DeviceReservation) -> DevicePod | None:
        """Return the pod of a reservation, read live if it is not known."""
        pod = self.pods.get(Key(entry.namespace, entry.name))
        if pod is None or pod.metadata.uid != entry.uid:
            pod = await get_object(self.kube, pod_path(entry.namespace, entry.name), DevicePod)
        return pod if pod is not None and pod.metadata.uid == entry.uid else None


def pod_path(namespace: str, name: str) -> str:
    """Return the API path of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _requests(info: PodInfo) -> list[Any]:
    """Return what the user requested, by container."""
    groups = (info.running_containers, info.init_containers)
    requested = [{name: each.requests for name, each in group.items() if each.requests} for group in groups]
    return [info.requests, *requested]
