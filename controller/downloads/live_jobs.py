"""Live reads and the deletion of download Jobs."""

from contextlib import suppress

from controller.claims.kinds import Job, JobPod
from shared.api.core import jobs_in, pods_in
from shared.kube.collection import decode, get_object, pages
from shared.kube.errors import Conflict, NotFound
from shared.kube.objects import Meta
from shared.kube.transport import Kube

_JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


async def read_job(kube: Kube, namespace: str, name: str) -> Job | None:
    """Return a Job, or None if it does not exist. Raises KubeError."""
    return await get_object(kube, _path(namespace, name), Job)


async def pods_of_job(kube: Kube, namespace: str, name: str) -> tuple[JobPod, ...]:
    """Return the first page of pods with a Job's label: the Job has far fewer, but others may give it to any pod."""
    query = {"labelSelector": f"{_JOB_NAME_LABEL}={name}"}
    async for page in pages(kube, pods_in(namespace), query):
        return tuple(decode(raw, JobPod) for raw in page.items)
    return ()


async def delete_job(kube: Kube, seen: Meta) -> None:
    """Delete the Job that was read, with its pods; never a newer one of the same name.

    It exists until its pods have ended, so that no other pod writes to the same claim beside them.
    """
    body = {"propagationPolicy": "Foreground", "preconditions": {"uid": seen.uid}}
    with suppress(NotFound, Conflict):
        await kube.request("DELETE", _path(seen.namespace, seen.name), body=body)


def _path(namespace: str, name: str) -> str:
    return f"{jobs_in(namespace)}/{name}"
