"""Who holds models as devices of Dynamic Resource Allocation, read live from the ResourceClaims."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.state.keys import EntryKey
from shared.dra import DRIVER, RESOURCE_CLAIMS, ResourceClaim, device_name, resource_claims_in
from shared.kube.collection import list_objects
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from shared.names import namespace_of


@dataclass(frozen=True, slots=True)
class ResourceClaimUsers:
    """Lists ResourceClaims where they may hold models; otherwise there are no such users."""

    kube: Kube
    enabled: bool

    async def on_node(self, node_name: str, entries: Iterable[EntryKey]) -> dict[EntryKey, tuple[str, ...]]:
        """Return who holds each entry on a node: `namespace/name` of pods, or of a claim without any. Raises KubeError.

        The scheduler writes the claim before it binds the pod, so a claim without a pod on the node counts, too.
        """
        if not self.enabled:
            return {}
        return holders(await self._claims(""), node_name, entries)

    async def of_model(self, entries: Collection[EntryKey], namespace: str) -> list[str]:
        """Return the pods that hold one of these entries on any node, in the namespace if one is given.

        Raises KubeError.
        """
        if not self.enabled:
            return []
        found = holders(await self._claims(namespace), "", entries)
        return sorted({name for names in found.values() for name in names})

    async def _claims(self, namespace: str) -> list[ResourceClaim]:
        path = resource_claims_in(namespace) if namespace else RESOURCE_CLAIMS
        try:
            return await list_objects(self.kube, path, ResourceClaim)
        except NotFound:  # the API server has no such kind
            return []


def holders(
    claims: Iterable[ResourceClaim], node_name: str, entries: Iterable[EntryKey]
) -> dict[EntryKey, tuple[str, ...]]:
    """Return who holds each entry on a node, or on any if `node_name` is empty.

    The driver gives a private model only to claims of its namespace, so others that hold it do not use it.
    """
    keys = {device_name(*key): key for key in entries}
    found: Mapping[EntryKey, set[str]] = defaultdict(set)
    for claim in claims:
        for device in _devices(claim, node_name):
            key = keys.get(device)
            if key is not None and namespace_of(key[0]) in ("", claim.metadata.namespace):
                found[key].update(_users(claim))
    return {key: tuple(sorted(names)) for key, names in found.items()}


def _devices(claim: ResourceClaim, node_name: str) -> list[str]:
    if node_name:
        return [each.device for each in claim.models_on(node_name)]
    allocation = claim.status.allocation
    return [each.device for each in (allocation.devices.results if allocation else ()) if each.driver == DRIVER]


def _users(claim: ResourceClaim) -> list[str]:
    namespace = claim.metadata.namespace
    return [f"{namespace}/{pod.name}" for pod in claim.pods] or [f"{namespace}/{claim.metadata.name} (claim)"]
