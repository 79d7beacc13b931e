"""Binds a pod to the node that the scheduler chose, and allocates its devices there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog

from controller.extender.accounts import DeviceAccounts, NodeAccount
from controller.extender.device_objects import DevicePod
from controller.extender.pods_on_node import pod_path
from controller.extender.requested_devices import requested_devices
from controller.extender.reservations import DeviceReservation
from controller.extender.reserve import DeviceReserver, NotBound
from controller.extender.shared_claims import SharedClaims, sharing_problem
from controller.extender.wire import ExtenderBindingArgs
from controller.extender.worker import NoAnswerInTime
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, encode_pod_info
from shared.devices.info import PodInfo
from shared.devices.scheduler import NAMESPACE_LABEL, SCHEDULER_NAME
from shared.kube.cache import Cache
from shared.kube.collection import get_object
from shared.kube.errors import Busy, Conflict, KubeError, NotFound, Refused
from shared.kube.objects import Key
from shared.kube.transport import Kube

_TIMEOUT_S = 10.0
_CLOSED = (  # the same message as in the chart's admission policy
    f"{SCHEDULER_NAME} is not enabled in namespace {{namespace}}; ask an administrator to run kubectl label namespace "
    f"{{namespace}} {NAMESPACE_LABEL}=true"
)
_log = structlog.get_logger("extender")


@dataclass(slots=True)
class DeviceBinder:
    """Reserves a pod's devices in a Lease that all replicas read, then writes allocation and node together."""

    kube: Kube
    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    reserver: DeviceReserver
    is_open: Callable[[str], Awaitable[bool]]  # whether the policy for bindings lets us bind pods of a namespace
    claims: SharedClaims

    async def bind(self, args: ExtenderBindingArgs) -> None:
        """Bind a pod. Raises NotBound."""
        try:
            await self._bind(args)
        except InvalidDeviceInfo as error:
            raise NotBound(f"annotation {ANNOTATION}: {error}") from error
        except RecursionError as error:
            raise NotBound(f"annotation {ANNOTATION}: it is nested too deeply") from error
        except (KubeError, NoAnswerInTime) as error:
            raise NotBound(str(error)) from error

    async def _bind(self, args: ExtenderBindingArgs) -> None:
        pod = await self._pod(args)
        if pod.spec.node_name:
            if pod.spec.node_name == args.node:
                return
            raise NotBound(f"the pod is already on node {pod.spec.node_name}")
        account = self.accounts.node(args.node)
        if account is None:
            raise NotBound(f"node {args.node} is gone")
        requested = requested_devices(pod)
        if not requested:
            await self._write_binding(pod, args.node, None)
            return
        if not await self.is_open(args.pod_namespace):
            raise NotBound(_CLOSED.format(namespace=args.pod_namespace))
        shared = await self.claims.with_models(pod, args.node)
        reservation = await self.reserver.reserve(
            pod, requested, account, lambda allocated: sharing_problem(pod, allocated, shared)
        )
        await self._bind_reserved(pod, reservation, account)
        self.reserver.settle(reservation, account.name)

    async def _bind_reserved(self, pod: DevicePod, reservation: DeviceReservation, account: NodeAccount) -> None:
        """Bind a pod with reserved devices; give them back if that is certain to have failed. Raises NotBound."""
        try:
            await self._write_or_give_back(pod, reservation, account)
        except BaseException:
            self.accounts.forget_assumed(reservation.uid)  # the Lease keeps the devices in case the binding arrives
            raise

    async def _write_or_give_back(self, pod: DevicePod, reservation: DeviceReservation, account: NodeAccount) -> None:
        try:
            await self._write_binding(pod, account.name, reservation.info)
        except KubeError as error:
            is_bound = await self._is_bound(pod, account.name, reservation.info)
            if is_bound:
                return
            where = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name, "node": account.name}
            _log.info("binding_failed", **where, error=str(error))
            if _had_no_effect(error) and is_bound is not None:
                await self.reserver.give_back(reservation, account)
                raise NotBound(f"the pod was not bound, and its devices are free again: {error}") from error
            raise NotBound(f"whether the pod was bound is unknown, so its devices stay reserved: {error}") from error

    async def _pod(self, args: ExtenderBindingArgs) -> DevicePod:
        """Return the pod, from the cache or live; refuse a pod with another uid or another scheduler."""
        key = Key(args.pod_namespace, args.pod_name)
        pod = self.pods.get(key)
        if pod is None or pod.metadata.uid != args.pod_uid:
            pod = await get_object(self.kube, pod_path(*key), DevicePod)
        if pod is None or pod.metadata.uid != args.pod_uid:
            raise NotBound("the pod is gone")
        if pod.spec.scheduler_name != SCHEDULER_NAME:
            raise NotBound(f"the scheduler of the pod is {pod.spec.scheduler_name!r}, not {SCHEDULER_NAME!r}")
        return pod

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
        path = f"{pod_path(pod.metadata.namespace, pod.metadata.name)}/binding"
        await self.kube.request("POST", path, body=body, timeout_s=_TIMEOUT_S)

    async def _is_bound(self, pod: DevicePod, node: str, info: PodInfo) -> bool | None:
        """Read the pod live and return whether it is on the node with these devices; None if the read fails."""
        try:
            found = await get_object(self.kube, pod_path(pod.metadata.namespace, pod.metadata.name), DevicePod)
        except KubeError:
            return None
        if found is None or found.metadata.uid != pod.metadata.uid or found.spec.node_name != node:
            return False
        return found.metadata.annotations.get(ANNOTATION) == encode_pod_info(info)


def _had_no_effect(error: KubeError) -> bool:
    """Return whether the API server rejected the request, so that it had no effect."""
    match error:
        case Conflict() | NotFound() | Refused():
            return True
        case Busy(code=code):
            return code < HTTPStatus.INTERNAL_SERVER_ERROR  # a 503 may come from a proxy in between
        case _:
            return False
