"""Finds the ResourceClaims that keep containers from getting their devices.

Kubelet prepares a ResourceClaim once, for all pods that share it. So the DRA driver adds the devices of plugins only to
one that was created for a single pod, from a template.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from controller.extender.device_objects import DevicePod
from shared.devices.info import PodInfo
from shared.dra import ResourceClaim, resource_claims_in
from shared.kube.collection import get_object
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class SharedClaims:
    """Reads the ResourceClaims that pods name; only `enabled` if the driver adds devices of plugins."""

    kube: Kube
    enabled: bool

    async def with_models(self, pod: DevicePod, node: str) -> frozenset[str]:
        """Return the names of the ResourceClaims that a pod shares with others and that hold models.

        Args:
            pod: The pod, before it is bound.
            node: The node that the scheduler chose, after it allocated the claims.

        Raises:
            KubeError: A claim could not be read.
        """
        named = {each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name}
        found = set[str]()
        for name in named if self.enabled else ():
            path = f"{resource_claims_in(pod.metadata.namespace)}/{name}"
            claim = await get_object(self.kube, path, ResourceClaim)
            if claim is not None and any(claim.models_on(node)):
                found.add(name)
        return frozenset(found)


def sharing_problem(pod: DevicePod, allocated: PodInfo, shared: AbstractSet[str]) -> str:
    """Return why a container would start without the devices that were allocated to it; empty if none would.

    `shared` are the ResourceClaims from `with_models`.
    """
    infos = allocated.init_containers | allocated.running_containers
    claims = {each.name: each.resource_claim_name for each in pod.spec.resource_claims}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        info = infos.get(container.name)
        names = [claims.get(use.name) for use in container.resources.claims]
        if info and info.allocate_from and (name := next((one for one in names if one in shared), None)):
            return (
                f"container {container.name} requests devices, which cannot be added to ResourceClaim {name}, because "
                "other pods may use it as well; name a template in resourceClaimTemplateName instead of the claim in "
                "resourceClaimName"
            )
    return ""
