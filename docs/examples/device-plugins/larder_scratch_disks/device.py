"""The device plugin, for the agent: says which disks the node has, and what a container needs to use its own."""

import os
from pathlib import Path

from agent.devices.plugin import Allocated, Mount
from larder_scratch_disks import EXTENDED_RESOURCE, disk
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo


class ScratchDisks:
    """The directories below SCRATCH_ROOT, by default /mnt/scratch."""

    name = "scratch"

    def new(self) -> None:
        """Read the settings."""
        self._root = Path(os.environ.get("SCRATCH_ROOT", "/mnt/scratch"))

    def start(self) -> None:
        """Raise OSError if there is no such directory: this node then advertises no disks."""
        self._names()

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Fill in one device for each disk, and their number for schedulers that only count."""
        names = self._names()
        node_info.capacity = {disk(name): 1 for name in names}
        node_info.allocatable = dict(node_info.capacity)
        node_info.kube_cap[EXTENDED_RESOURCE] = len(names)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Allocated:
        """Mount the disks that the scheduler chose for the container."""
        del pod_info
        chosen = set(container_info.allocate_from.values())
        names = [name for name in self._names() if disk(name) in chosen]
        mounts = [Mount(f"/scratch/{name}", f"{self._root}/{name}", read_only=False) for name in names]
        return mounts, [], {"SCRATCH_DIRS": ":".join(mount.container_path for mount in mounts)} if mounts else {}

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._root.iterdir() if path.is_dir())
