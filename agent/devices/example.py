"""The built-in plugin `example`: devices from a file, for trying out trees of groups without hardware.

The file is JSON with the keys `capacity`, `allocatable` and `scorer` of the annotation, and `kubecap` and `kubealloc`
for extended resources. A missing capacity defaults to the allocatable amount.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.devices.plugin import Allocated
from shared.decode_errors import DECODE_ERRORS
from shared.devices.annotation import node_info_from
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

NAME = "example"
MAX_FILE_BYTES = 256 * 1024
VARIABLE = "LARDER_EXAMPLE_DEVICES"
_KEYS = {"capacity", "allocatable", "scorer", "kubecap", "kubealloc"}


class ExampleDevices:
    """The device plugin; it rereads the file on each call, because a ConfigMap may change."""

    name = NAME

    def __init__(self, path: Path) -> None:
        self._path = path

    def new(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Check that the file can be read. Raises OSError or ValueError."""
        self.update_node_info(NodeInfo())

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Fill in the devices from the file."""
        with self._path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        fill_from(text, node_info)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Allocated:
        """Return a variable with the names of the container's example devices; nothing if it has none."""
        offered = NodeInfo(pod_info.node_name)
        self.update_node_info(offered)
        own = sorted(offered.allocatable.keys() & container_info.allocate_from.values())
        return (), (), {VARIABLE: ",".join(own)} if own else {}


def fill_from(text: bytes, node_info: NodeInfo) -> None:
    """Fill in the devices from the text of a file. Raises ValueError."""
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"the file of example devices has more than {MAX_FILE_BYTES} bytes")
    try:
        values = msgspec.json.decode(text)
    except DECODE_ERRORS as error:
        raise ValueError(f"the file of example devices is not JSON: {error}") from None
    if not isinstance(values, Mapping) or (unknown := sorted(values.keys() - _KEYS)):
        what = ", ".join(unknown) if isinstance(values, Mapping) else "no JSON object"
        raise ValueError(f"the file of example devices has {what:.200}; write {', '.join(sorted(_KEYS))}")
    info = node_info_from({key: value for key, value in values.items() if not key.startswith("kube")})
    node_info.capacity |= info.allocatable | info.capacity
    node_info.allocatable |= info.allocatable
    node_info.scorer |= info.scorer
    node_info.kube_cap = values.get("kubecap", {})
    node_info.kube_alloc = values.get("kubealloc", {})
