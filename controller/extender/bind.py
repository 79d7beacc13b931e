"""Binds a pod to the node that the scheduler chose, together with the devices that it gets there."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import structlog

from controller.extender.accounts import DeviceAccounts, NodeAccount
from controller.extender.asked_devices import AskedDevices, allocated_devices, asked_devices
from controller.extender.device_objects import DevicePod
from controller.extender.reservations import DeviceReservation, DeviceReservations, ReservationStore
from controller.extender.wire import ExtenderBindingArgs
from controller.extender.worker import DeviceWorker, NoAnswerInTime
from shared.api.core import PODS
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, encode_pod_info
from shared.devices.info import PodInfo
from shared.devices.scheduler import SCHEDULER_NAME
from shared.kube.cache import Cache
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import Conflict, KubeError, NotFound, Refused
from shared.kube.objects import Key
from shared.kube.transport import Kube

_ATTEMPTS = 8  # to reserve, while others reserve devices of the same node
_TIMEOUT_S = 10.0
_ALLOCATION_S = 2.0
_DEFINITE = (Conflict, NotFound, Refused)  # the pod was not bound by this request
_log = structlog.get_logger("extender")


class NotBound(Exception):
    """The pod was not bound; the message reaches its events."""


@dataclass(slots=True)
class DeviceBinder:
    """Binds pods: reserves their devices where every replica sees it, then writes allocation and node in one request.

    A device is free if neither a pod on the node, listed live, nor a reservation has it. The reservation is read first:
    one that is gone by then belongs to a pod that the list has.
    """

    kube: Kube
    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    worker: DeviceWorker
    store: ReservationStore
    conflict: Callable[[], None] = lambda: None  # called when another replica was first
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def bind(self, args: ExtenderBindingArgs) -> None:
        """Bind a pod. Raises NotBound."""
        try:
            await self._bind(args)
        except InvalidDeviceInfo as error:
            raise NotBound(f"annotation {ANNOTATION}: {error}") from error
        except (KubeError, NoAnswerInTime) as error:
            raise NotBound(str(error)) from error

    async def _bind(self, args: ExtenderBindingArgs) -> None:
        pod = await self._pod(args)
        if pod.spec.node_name:
            if pod.spec.node_name == args.node:
                return
            raise NotBound(f"the pod is on node {pod.spec.node_name} already")
        account = self.accounts.node(args.node)
        if account is None:
            raise NotBound(f"node {args.node} is gone")
        asked = asked_devices(pod)
        if not asked:
            await self._write_binding(pod, args.node, None)
            return
        info = await self._reserve(pod, asked, account)
        self.accounts.assume(pod.metadata.uid, args.node, info)
        try:
            await self._write_binding(pod, args.node, info)
        except _DEFINITE as error:
            if await self._is_bound(pod, args.node, info):
                return
            _log.info("binding_failed", namespace=args.pod_namespace, pod=args.pod_name, node=args.node)
            await self._give_back(pod, account)
            raise NotBound(f"the pod was not bound, and its devices are free again: {error}") from error
        except KubeError as error:
            if not await self._is_bound(pod, args.node, info):
                raise NotBound(
                    f"whether the pod was bound is unknown, so its devices stay reserved: {error}"
                ) from error

    async def _pod(self, args: ExtenderBindingArgs) -> DevicePod:
        """Return the pod, read live if it is not known; only one of our scheduler, and only by its uid."""
        key = Key(args.pod_namespace, args.pod_name)
        pod = self.pods.get(key)
        if pod is None or pod.metadata.uid != args.pod_uid:
            pod = await get_object(self.kube, _path(*key), DevicePod)
        if pod is None or pod.metadata.uid != args.pod_uid:
            raise NotBound("the pod is gone")
        if pod.spec.scheduler_name != SCHEDULER_NAME:
            raise NotBound(f"the scheduler of the pod is {pod.spec.scheduler_name!r}, not {SCHEDULER_NAME!r}")
        return pod

    async def _reserve(self, pod: DevicePod, asked: AskedDevices, account: NodeAccount) -> PodInfo:
        """Reserve devices for a pod. Raises NotBound, KubeError, NoAnswerInTime."""
        lock = self._locks.setdefault(account.name, asyncio.Lock())
        async with lock:
            for _ in range(_ATTEMPTS):
                reserved = await self.store.of(account.name, account.uid)
                try:
                    return await self._try_reserve(pod, asked, reserved)
                except Conflict:
                    self.conflict()
        raise NotBound(f"other replicas keep reserving devices of node {account.name}; it is tried again")

    async def _try_reserve(self, pod: DevicePod, asked: AskedDevices, reserved: DeviceReservations) -> PodInfo:
        node, uid = reserved.node, pod.metadata.uid
        bound = await self._bound(node)
        kept = [each for each in reserved.entries if each.uid != uid and await self._is_pending(node, each, bound)]
        mine = next((each for each in reserved.entries if each.uid == uid), None)
        if mine is not None and not self.store.is_expired(node, uid):
            info = mine.info  # an earlier binding may still arrive, with these devices
            if _requests(info) != _requests(asked.info):
                raise NotBound(
                    "an earlier binding of the pod, with other requests, may still arrive; it is tried again"
                )
        else:
            info = await self._allocate(asked, node, bound | {each.uid: each.info for each in kept})
        metadata = pod.metadata
        mine = DeviceReservation(metadata.namespace, metadata.name, uid, info)
        await self.store.write(replace(reserved, entries=(*kept, mine)))
        return info

    async def _allocate(self, asked: AskedDevices, node: str, pods: Mapping[str, PodInfo]) -> PodInfo:
        found = await self.worker.run(lambda evaluator: evaluator.allocate(asked, node, pods), _ALLOCATION_S)
        if isinstance(found, str):
            raise NotBound(f"node {node} has no devices for the pod any more: {found}")
        return found

    async def _bound(self, node: str) -> dict[str, PodInfo]:
        """Return what the pods on a node have, listed live."""
        query = {"fieldSelector": f"spec.nodeName={node},spec.schedulerName={SCHEDULER_NAME}"}
        listed = await list_objects(self.kube, PODS, DevicePod, query)
        allocated = ((pod.metadata.uid, allocated_devices(pod)) for pod in listed)
        return {uid: info for uid, info in allocated if info is not None}

    async def _is_pending(self, node: str, entry: DeviceReservation, bound: Mapping[str, PodInfo]) -> bool:
        """Return whether the pod of a reservation may still come to a node, or came there after the list was made."""
        if entry.uid in bound or self.store.is_expired(node, entry.uid):
            return False
        pod = self.pods.get(Key(entry.namespace, entry.name))
        if pod is None or pod.metadata.uid != entry.uid:
            pod = await get_object(self.kube, _path(entry.namespace, entry.name), DevicePod)
        if pod is None or pod.metadata.uid != entry.uid or pod.has_ended:
            return False
        return pod.spec.node_name in ("", node)

    async def _write_binding(self, pod: DevicePod, node: str, info: PodInfo | None) -> None:
        metadata: dict[str, Any] = {"name": pod.metadata.name, "uid": pod.metadata.uid}
        if info is not None:
            metadata["annotations"] = {ANNOTATION: encode_pod_info(info)}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"{_path(pod.metadata.namespace, pod.metadata.name)}/binding"
        await self.kube.request("POST", path, body=body, timeout_s=_TIMEOUT_S)

    async def _is_bound(self, pod: DevicePod, node: str, info: PodInfo) -> bool:
        """Return whether the pod is on the node with these devices, read live; False if that cannot be read."""
        try:
            found = await get_object(self.kube, _path(pod.metadata.namespace, pod.metadata.name), DevicePod)
        except KubeError:
            return False
        if found is None or found.metadata.uid != pod.metadata.uid or found.spec.node_name != node:
            return False
        return found.metadata.annotations.get(ANNOTATION) == encode_pod_info(info)

    async def _give_back(self, pod: DevicePod, account: NodeAccount) -> None:
        """Remove the reservation of a pod that was not bound; if that fails, the next reservation on the node does."""
        self.accounts.give_up(pod.metadata.uid)
        lock = self._locks.setdefault(account.name, asyncio.Lock())
        try:
            async with lock:
                reserved = await self.store.of(account.name, account.uid)
                left = tuple(each for each in reserved.entries if each.uid != pod.metadata.uid)
                if left != reserved.entries:
                    await self.store.write(replace(reserved, entries=left))
        except KubeError as error:
            _log.info("reservation_left", node=account.name, error=str(error))


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _requests(info: PodInfo) -> list[Any]:
    """Return what the user asked for, by container."""
    groups = (info.running_containers, info.init_containers)
    asked = [{name: each.requests for name, each in group.items() if each.requests} for group in groups]
    return [info.requests, *asked]
