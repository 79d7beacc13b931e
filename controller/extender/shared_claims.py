"""Finds the ResourceClaims that keep containers from getting their devices.

Kubelet prepares a ResourceClaim once, for all pods that share it. So the DRA driver adds the devices of plugins only to
one that was created for a single pod, from a template.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.extender.device_objects import DevicePod
from shared.devices.info import PodInfo
from shared.kube.collection import get_object
from shared.kube.transport import Kube
from shared.model_devices import RESOURCES, ResourceClaim


@dataclass(frozen=True, slots=True)
class SharedClaims:
    """Reads the ResourceClaims that pods name; only `enabled` if the driver adds devices of plugins."""

    kube: Kube
    enabled: bool

    async def problem(self, pod: DevicePod, requested: PodInfo, node: str) -> str:
        """Return why a container of a pod would start without its devices; empty if it would not.

        Args:
            pod: The pod, before it is bound.
            requested: The devices that its containers request.
            node: The node that the scheduler chose, after it allocated the claims.

        Raises:
            KubeError: A claim could not be read.
        """
        for container, name in _claims_by_name(pod, requested) if self.enabled else ():
            path = f"{RESOURCES}/namespaces/{pod.metadata.namespace}/resourceclaims/{name}"
            claim = await get_object(self.kube, path, ResourceClaim)
            if claim is not None and any(claim.models_on(node)):
                return (
                    f"container {container} requests devices, which cannot be added to ResourceClaim {name}, because "
                    "other pods may use it as well; name a template in resourceClaimTemplateName instead of the claim "
                    "in resourceClaimName"
                )
        return ""


def _claims_by_name(pod: DevicePod, requested: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield each container with devices and each ResourceClaim that it uses by name."""
    with_devices = requested.init_containers.keys() | requested.running_containers.keys()
    named = {each.name: each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container.name in with_devices:
            used = dict.fromkeys(use.name for use in container.resources.claims if use.name in named)
            yield from ((container.name, named[name]) for name in used)
