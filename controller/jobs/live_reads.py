"""Live reads of Jobs, of claims and of the pods in their namespace, and the deletion of Jobs."""

from contextlib import suppress

from controller.jobs.observed_jobs import JOB_NAME_LABEL, ClaimPod, Job, JobPod
from controller.placement.claim_place import ClaimPath
from shared.api.core import PersistentVolumeClaim, claims_in, jobs_in, pods_in
from shared.kube.collection import decode, get_object, list_objects, pages
from shared.kube.errors import Conflict, NotFound
from shared.kube.objects import Meta
from shared.kube.transport import Kube

_MAX_JOB_PODS = 20  # our Jobs have at most four, one after another
_LIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_job(kube: Kube, namespace: str, name: str) -> Job | None:
    """Return a Job, or None if it does not exist. Raises KubeError."""
    return await get_object(kube, _path(namespace, name), Job)


async def delete_job(kube: Kube, seen: Meta) -> None:
    """Delete the Job that was read, with its pods; never a newer one of the same name.

    It exists until its pods have ended, so that no other pod writes to the same claim beside them.
    """
    body = {"propagationPolicy": "Foreground", "preconditions": {"uid": seen.uid}}
    with suppress(NotFound, Conflict):
        await kube.request("DELETE", _path(seen.namespace, seen.name), body=body)


async def read_claim(kube: Kube, place: ClaimPath) -> PersistentVolumeClaim | None:
    """Return a claim, or None if it does not exist. Raises KubeError."""
    path = f"{claims_in(place.namespace)}/{place.claim}"
    return await get_object(kube, path, PersistentVolumeClaim)


async def live_pods(kube: Kube, namespace: str, labels: str = "") -> list[ClaimPod]:
    """Return the pods of a namespace that have not ended, optionally only those with these labels. Raises KubeError."""
    query = {"fieldSelector": _LIVE} | ({"labelSelector": labels} if labels else {})
    return await list_objects(kube, pods_in(namespace), ClaimPod, query)


async def pods_of_job(kube: Kube, namespace: str, name: str) -> tuple[JobPod, ...]:
    """Return the first pods with the label of one of our Jobs: others may give it to thousands of large pods."""
    query = {"labelSelector": f"{JOB_NAME_LABEL}={name}"}
    async for page in pages(kube, pods_in(namespace), query, size=_MAX_JOB_PODS):
        return tuple(decode(raw, JobPod) for raw in page.items)
    return ()


def _path(namespace: str, name: str) -> str:
    return f"{jobs_in(namespace)}/{name}"
