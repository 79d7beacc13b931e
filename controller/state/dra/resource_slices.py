"""Which models a node's driver offers to new claims, read live."""

from dataclasses import dataclass

from shared.dra import SLICES, ResourceSlice, slices_selector
from shared.kube.collection import list_objects, selectors
from shared.kube.errors import NotFound
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ResourceSliceReader:
    """Lists the ResourceSlices of drivers; `enabled` if models can be devices, otherwise no slice is read."""

    kube: Kube
    enabled: bool

    async def on_node(self, node_name: str) -> frozenset[str]:
        """Return the devices that new claims may get on a node: those without a taint. Raises KubeError.

        Kubelet deletes the slices of a driver that is gone, so a node without a driver offers nothing.
        """
        try:
            query = selectors(field_selector=slices_selector(node_name))
            slices = await list_objects(self.kube, SLICES, ResourceSlice, query)
        except NotFound:  # the API server has no such kind
            return frozenset()
        return frozenset(device.name for body in slices for device in body.spec.devices if not device.taints)
