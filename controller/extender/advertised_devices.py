"""The devices that a node advertises: a plain function of its annotation and its status."""

from controller.extender.device_objects import DeviceNode, whole_numbers
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, parse_node_info
from shared.devices.info import NodeInfo


def advertised_devices(node: DeviceNode) -> tuple[NodeInfo, str]:
    """Return what a node advertises; if its annotation is invalid, return nothing and the reason."""
    problem, text = "", node.metadata.annotations.get(ANNOTATION, "")
    try:
        info = parse_node_info(text) if text else NodeInfo()
    except InvalidDeviceInfo as error:
        info, problem = NodeInfo(), f"annotation {ANNOTATION} of the node: {error}"
    info.name = node.metadata.name
    info.kube_cap = whole_numbers(node.status.capacity)
    info.kube_alloc = whole_numbers(node.status.allocatable)
    return info, problem
