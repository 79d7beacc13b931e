"""The scheduler plugin, for the controller: lets pods ask for a number of disks.

The group scheduler, which comes after all plugins, then chooses them.
"""

from controller.devices.plugin import DeviceFit
from controller.devices.shortage import Shortage
from larder_scratch_disks import EXTENDED_RESOURCE, disk, is_disk
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo


class ScratchScheduler:
    """Turns `larder.dev/scratch: 2` into requests for two disks."""

    name = "scratch"
    using_group_scheduler = True  # which finds free disks and counts them

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Do nothing; the devices are in the NodeInfo."""

    def remove_node(self, node_name: str) -> None:
        """Do nothing."""

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Add the requests of each container; refuse a node with fewer disks than one of them asks for."""
        del fill_allocate_from
        disks = [name for name in node_info.allocatable if is_disk(name)]
        reasons = []
        for name, container in (*pod_info.running_containers.items(), *pod_info.init_containers.items()):
            count = _count(container)
            if count > len(disks):
                reasons.append(Shortage(name, EXTENDED_RESOURCE, count, 0, len(disks)))
            elif not any(map(is_disk, container.dev_requests)):
                container.dev_requests |= {disk(str(number)): 1 for number in range(count)}
        return DeviceFit(not reasons, reasons)

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add the requests; the group scheduler comes after all plugins and fills in the disks."""
        self.pod_fits_device(node_info, pod_info, fill_allocate_from=True)

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Do nothing; the group scheduler counts."""

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Do nothing; the group scheduler counts."""


def _count(container: ContainerInfo) -> int:
    """Return the number of disks that a container asks for, in the annotation or of Kubernetes."""
    return max(container.requests.get(EXTENDED_RESOURCE, 0), container.kube_requests.get(EXTENDED_RESOURCE, 0))
