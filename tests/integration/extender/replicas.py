"""Two extender replicas without their programs, each with its own state, on a real API server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.devices.plugin import DeviceScheduler
from controller.extender.accounts import DeviceAccounts
from controller.extender.bind import DeviceBinder
from controller.extender.device_objects import DeviceNode, DevicePod
from controller.extender.reservations import ReservationStore
from controller.extender.reserve import DeviceReserver, NotBound
from controller.extender.wire import ExtenderBindingArgs
from controller.extender.worker import DeviceWorker
from rig.api import Api
from shared.kube.cache import Cache
from shared.kube.transport import Kube
from tests.builders.devices import Json, node_json, pod_json

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@dataclass(slots=True)
class ExtenderReplica:
    """The state of one replica; it has no watches, as if they were far behind."""

    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    binder: DeviceBinder
    worker: DeviceWorker
    conflicts: list[str]

    def follow_node(self, node: Json) -> None:
        self.accounts.node_changed(None, msgspec.convert(node, DeviceNode))

    def follow_pod(self, pod: Json) -> None:
        self.pods.upsert(msgspec.convert(pod, DevicePod))

    async def bind(self, pod: Json, node: str) -> str:
        """Return the reason why the pod was not bound, or an empty string."""
        metadata = pod["metadata"]
        args = ExtenderBindingArgs(
            pod_name=metadata["name"], pod_namespace=metadata["namespace"], pod_uid=metadata["uid"], node=node
        )
        try:
            await self.binder.bind(args)
        except NotBound as error:
            return str(error) or "no reason"
        return ""


def replica(
    kube: Kube, name: str, plugins: Sequence[DeviceScheduler] = (), clock: Any = time.monotonic
) -> ExtenderReplica:
    accounts, conflicts = DeviceAccounts(), list[str]()
    pods: Cache[DevicePod] = Cache(accounts.pod_changed)
    worker = DeviceWorker(accounts, plugins, time.monotonic)
    store = ReservationStore(kube, NAMESPACE, name, clock)
    reserver = DeviceReserver(kube, accounts, pods, worker, store, lambda: conflicts.append(name))

    async def is_open(_: str) -> bool:
        return True

    binder = DeviceBinder(kube, accounts, pods, reserver, is_open)
    return ExtenderReplica(accounts, pods, binder, worker, conflicts)


def create_node(api: Api, name: str, allocatable: dict[str, int]) -> Json:
    body = node_json(name, allocatable)
    del body["metadata"]["uid"]
    return api.create("/api/v1/nodes", body)


def create_pod(api: Api, name: str, asks: dict[str, int] | None = None, **spec: Any) -> Json:
    """Create a pod that no scheduler handles: the real one ignores larder-scheduler."""
    body = pod_json(name, asks, **spec)
    del body["metadata"]["uid"]
    body["spec"] |= {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    return api.create(PODS, body)
