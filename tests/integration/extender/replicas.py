"""Extender replicas without the rest of the controller, each with its own state, on a real API server."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from controller.devices.plugin import DeviceScheduler
from controller.extender.device_objects import DeviceNode, DevicePod
from controller.extender.wire import ExtenderBindingArgs
from rig.api import Api
from shared.json_object import Json
from shared.kube.transport import Kube
from tests.builders.device_replica import DeviceReplica
from tests.builders.devices import node_json, pod_json

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class ExtenderReplica(DeviceReplica):
    """The state of one replica."""

    def follow_node(self, node: Json) -> None:
        self.accounts.node_changed(None, msgspec.convert(node, DeviceNode))

    def follow_pod(self, pod: Json) -> None:
        self.pods.upsert(msgspec.convert(pod, DevicePod))

    async def bind(self, pod: Json, node: str) -> str:
        """Return the reason why the pod was not bound, or an empty string."""
        metadata = pod["metadata"]
        return await self.try_to_bind(
            ExtenderBindingArgs(
                pod_name=metadata["name"], pod_namespace=metadata["namespace"], pod_uid=metadata["uid"], node=node
            )
        )


def replica(
    kube: Kube, name: str, plugins: Sequence[DeviceScheduler] = (), clock: Callable[[], float] = time.monotonic
) -> ExtenderReplica:
    async def is_open(_: str) -> bool:
        return True

    return ExtenderReplica(kube, name, plugins, clock, NAMESPACE, is_open)


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
