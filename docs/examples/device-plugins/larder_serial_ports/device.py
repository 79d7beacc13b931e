"""The device plugin, for the agent: says which ports the node has, and what a container needs to use its own."""

import os
from pathlib import Path

from agent.devices.plugin import Allocated, Mount
from larder_serial_ports import EXTENDED_RESOURCE, is_port, name_of, port
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

NAMES = Path("/dev/serial/by-id")  # where udev links the names of adapters to their ports


class SerialPorts:
    """The files ttyUSB* and ttyACM* in SERIAL_DEV, where the agent's pod mounts /dev of the node."""

    name = "serial"

    def new(self) -> None:
        """Read the settings."""
        self._dev = Path(os.environ.get("SERIAL_DEV", "/dev"))

    def start(self) -> None:
        """Raise OSError if there is no such directory: this node then advertises no ports."""
        self._names()

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Fill in one device for each port, and their number for schedulers that only count."""
        names = self._names()
        node_info.capacity = {port(name): 1 for name in names}
        node_info.allocatable = dict(node_info.capacity)
        node_info.kube_cap[EXTENDED_RESOURCE] = len(names)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Allocated:
        """Give the container the ports that the scheduler chose for it; other devices are none of our business."""
        del pod_info
        paths = sorted(f"/dev/{name_of(each)}" for each in container_info.allocate_from.values() if is_port(each))
        if not paths:
            return [], [], {}
        return [Mount(str(NAMES), str(NAMES))], paths, {"SERIAL_PORTS": ",".join(paths)}

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._dev.iterdir() if path.name.startswith(("ttyUSB", "ttyACM")))
