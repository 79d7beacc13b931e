"""Live reads of claims and of the pods in their namespace."""

from controller.claims.kinds import ClaimPod
from controller.placement.claim_place import ClaimPath
from shared.api.core import PersistentVolumeClaim, claims_in, pods_in
from shared.kube.collection import get_object, list_objects
from shared.kube.transport import Kube

_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_claim(kube: Kube, place: ClaimPath) -> PersistentVolumeClaim | None:
    """Return a claim, or None if it does not exist. Raises KubeError."""
    path = f"{claims_in(place.namespace)}/{place.claim}"
    return await get_object(kube, path, PersistentVolumeClaim)


async def live_pods(kube: Kube, namespace: str, labels: str = "") -> list[ClaimPod]:
    """Return the pods of a namespace that have not ended, optionally only those with these labels. Raises KubeError."""
    query = {"fieldSelector": _LIVE} | ({"labelSelector": labels} if labels else {})
    return await list_objects(kube, pods_in(namespace), ClaimPod, query)
