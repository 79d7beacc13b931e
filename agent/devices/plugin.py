"""The port that device plugins implement: what KubeDevice calls `Device`.

A plugin is a separate distribution with an entry point in the group `larder.devices`. The entry point names a class or
function that takes no arguments and returns a `DevicePlugin`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

GROUP = "larder.devices"


class Mount(NamedTuple):
    """A path of the node that is mounted into a container. Both paths are absolute."""

    container_path: str
    host_path: str
    read_only: bool = True


Allocated: TypeAlias = tuple[Sequence[Mount], Sequence[str], Mapping[str, str]]


class DevicePlugin(Protocol):
    """Advertises one kind of device, and returns what a container needs to use it.

    Each call has a deadline. A plugin that raises, exceeds the deadline or returns invalid data is left out and called
    again later. Calls come from any thread, but never overlap.
    """

    @property
    def name(self) -> str:
        """Return the name, for messages and metrics: at most 63 letters, digits, dots, dashes and underscores."""
        ...

    def new(self) -> None:
        """Create the plugin; called once, before all other methods. Should not fail."""
        ...

    def start(self) -> None:
        """Initialise the devices. Raise if there are none or they do not work; the plugin is then left out."""
        ...

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Fill in the devices that the node has now.

        Args:
            node_info: Has the name of the node and nothing else. `capacity`, `allocatable`, `used` and `scorer` go into
                the annotation of the Node; `kube_cap` and `kube_alloc` go into its status as extended resources.
        """
        ...

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Allocated:
        """Return what a container needs to use its allocated devices.

        It must have no side effects: it may be called again for the same container, and there is no call when the
        container ends.

        Args:
            pod_info: The whole pod.
            container_info: The container; `allocate_from` names the devices of this node.

        Returns:
            The mounts, the paths of the device nodes, and the environment variables; all empty if the container uses
            none of the plugin's devices.
        """
        ...
