"""The port of scheduler plugins: plain functions of NodeInfo and PodInfo, as in KubeDevice."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controller.devices.shortage import Reason
from shared.devices.info import NodeInfo, PodInfo


class DeviceFit(NamedTuple):
    """Whether a pod fits on a node, why not, and the score of the node: the higher, the better."""

    fits: bool
    reasons: Sequence[Reason] = ()
    score: float = 0.0


class DeviceScheduler(Protocol):
    """Decides about the devices of one kind.

    A plugin may change the `dev_requests` of the PodInfo that it is asked about, for the plugins after it, and the
    `allocatable` of the NodeInfo in `add_node`. It is never given the same object twice, so it must not keep it.
    """

    @property
    def name(self) -> str:
        """Return the name, for messages."""
        ...

    @property
    def using_group_scheduler(self) -> bool:
        """Return whether the group scheduler, after all plugins, allocates and counts the devices."""
        ...

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Note a node that is new or has changed."""
        ...

    def remove_node(self, node_name: str) -> None:
        """Forget a node."""
        ...

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Return whether a pod fits; fill `allocate_from` of its containers only if asked to."""
        ...

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Fill `dev_requests` and `allocate_from` for the node that was chosen; raise if the pod does not fit."""
        ...

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add to `used` of a node what a pod uses."""
        ...

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Subtract from `used` of a node what a pod used."""
        ...
