"""The requests and responses of kube-scheduler's extender API: JSON with Go's field names."""

from typing import Any

import msgspec

from controller.extender.device_objects import DevicePod

MAX_PRIORITY = 10  # of the extender API


class ExtenderArgs(msgspec.Struct, rename="pascal", frozen=True, kw_only=True):
    """The arguments of filter and prioritize; only names of nodes, since `nodeCacheCapable` is set."""

    pod: DevicePod
    nodes: dict[str, Any] | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(msgspec.Struct, rename="pascal", frozen=True, kw_only=True):
    """The nodes that a pod may go to, and the reason for each other node, where evicting pods would not help."""

    node_names: list[str] = []
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct, rename="pascal", frozen=True, gc=False):
    """The priority of a node, from 0 to 10."""

    host: str
    score: int


class ExtenderBindingArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The pod to bind, and the node that was chosen."""

    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class ExtenderBindingResult(msgspec.Struct, rename="pascal", frozen=True, omit_defaults=True):
    """Why a pod was not bound; empty if it was."""

    error: str = ""
