"""The scheduler plugin, for the controller: lets pods ask for a number of ports.

The group scheduler, which comes after all plugins, then chooses them.
"""

from controller.devices.plugin import DeviceFit
from controller.devices.refusal_reasons import Shortage
from larder_serial_ports import EXTENDED_RESOURCE, is_port, port
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo


class SerialScheduler:
    """Turns `larder.dev/serial-port: 2` into requests for two ports."""

    name = "serial"
    using_group_scheduler = True  # which finds free ports and counts them

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Do nothing; the devices are in the NodeInfo."""

    def remove_node(self, node_name: str) -> None:
        """Do nothing."""

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Add the requests of each container; refuse a node with fewer ports than one of them asks for."""
        del fill_allocate_from
        ports = [name for name in node_info.allocatable if is_port(name)]
        reasons = []
        for name, container in (*pod_info.running_containers.items(), *pod_info.init_containers.items()):
            count = _count(container)
            if count > len(ports):
                reasons.append(Shortage(name, EXTENDED_RESOURCE, count, 0, len(ports)))
            elif not any(map(is_port, container.dev_requests)):
                container.dev_requests |= {port(str(number)): 1 for number in range(count)}
        return DeviceFit(not reasons, reasons)

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add the requests; the group scheduler fills in the ports."""
        self.pod_fits_device(node_info, pod_info, fill_allocate_from=True)

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Do nothing; the group scheduler counts."""

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Do nothing; the group scheduler counts."""


def _count(container: ContainerInfo) -> int:
    """Return the number of ports that a container asks for, in the annotation or of Kubernetes."""
    return max(container.requests.get(EXTENDED_RESOURCE, 0), container.kube_requests.get(EXTENDED_RESOURCE, 0))
