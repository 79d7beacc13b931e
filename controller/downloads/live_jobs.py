"""Live reads and the deletion of download Jobs."""

from contextlib import suppress

from controller.claims.kinds import Job
from shared.api.core import jobs_in
from shared.kube.collection import get_object
from shared.kube.errors import Conflict, NotFound
from shared.kube.objects import Meta
from shared.kube.transport import Kube


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


def _path(namespace: str, name: str) -> str:
    return f"{jobs_in(namespace)}/{name}"
