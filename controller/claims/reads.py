"""Live reads of claims and of the pods beside them."""

from controller.claims.kinds import ClaimPod
from controller.placement.claim_place import ClaimPath
from shared.api.core import PersistentVolumeClaim
from shared.kube.collection import get_object, list_objects
from shared.kube.transport import Kube

_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_claim(kube: Kube, place: ClaimPath) -> PersistentVolumeClaim | None:
    """Return a claim, None where there is none; raises KubeError."""
    path = f"/api/v1/namespaces/{place.namespace}/persistentvolumeclaims/{place.claim}"
    return await get_object(kube, path, PersistentVolumeClaim)


async def live_pods(kube: Kube, namespace: str, labels: str = "") -> list[ClaimPod]:
    """Return the pods of a namespace that have not ended, all or those with these labels; raises KubeError."""
    query = {"fieldSelector": _LIVE} | ({"labelSelector": labels} if labels else {})
    return await list_objects(kube, f"/api/v1/namespaces/{namespace}/pods", ClaimPod, query)
