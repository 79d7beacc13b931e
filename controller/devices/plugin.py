"""The port that scheduler plugins implement: plain functions of NodeInfo and PodInfo, as in KubeDevice."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controller.devices.refusal_reasons import Reason
from shared.devices.info import NodeInfo, PodInfo


class DeviceFit(NamedTuple):
    """Whether a pod fits on a node, why not, and the node's score; higher is better."""

    fits: bool
    reasons: Sequence[Reason] = ()
    score: float = 0.0


class DeviceScheduler(Protocol):
    """A scheduler plugin for one kind of device.

    A plugin may change the PodInfo's `dev_requests`; plugins after it see the change. In `add_node`, it may change the
    NodeInfo's `allocatable`. It must not keep the objects that it is passed: some are copies, others change later.
    """

    @property
    def name(self) -> str:
        """Return the name, for messages."""
        ...

    @property
    def using_group_scheduler(self) -> bool:
        """Return whether the group scheduler, which runs after all plugins, allocates and counts the devices."""
        ...

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Add a node, or replace what is known about it.

        Args:
            node_name: Name of the Node.
            node_info: What the Node advertises; the plugin may change its `allocatable`.
        """
        ...

    def remove_node(self, node_name: str) -> None:
        """Forget a node.

        Args:
            node_name: Name of a Node, which may be unknown.
        """
        ...

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Return whether a pod fits on a node.

        Args:
            node_info: The node, with what is in use.
            pod_info: The pod; its `dev_requests` may be changed.
            fill_allocate_from: Whether to fill `allocate_from` of the pod's containers.

        Returns:
            Whether the pod fits, why not, and the score of the node.
        """
        ...

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Choose the devices of a pod on the node that was selected.

        Args:
            node_info: The node, with what is in use.
            pod_info: The pod; its `dev_requests` and `allocate_from` are filled.

        Raises:
            Exception: The pod does not fit.
        """
        ...

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add the devices of a pod to those in use.

        Args:
            node_info: The node, whose `used` changes.
            pod_info: The pod, with its allocation.
        """
        ...

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Remove the devices of a pod from those in use.

        Args:
            node_info: The node, whose `used` changes.
            pod_info: The pod, with its allocation.
        """
        ...
