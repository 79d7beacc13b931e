"""Changes one object on the API server without losing concurrent changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shared.backoff import Backoff
from shared.json_object import Json
from shared.kube.collection import decode
from shared.kube.errors import AlreadyExists, Busy, Conflict, NotFound, Refused, Unreachable
from shared.kube.transport import APPLY_PATCH, MERGE_PATCH, Kube

_UNTYPED = "failed to create typed patch object"  # comes with status 500 for a field that the kind does not have
_UNPROCESSABLE = 422
_PAUSE = Backoff(first_s=0.02, cap_s=0.5)


async def update(
    kube: Kube,
    path: str,
    change: Callable[[Json], Json | None],
    within_s: float = 10,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Json:
    """Read, change and PUT an object, and repeat after a conflict.

    `change` gets the whole object, so unknown fields are preserved. It may be called several times, even on the result
    of an earlier call, so it must be idempotent.

    Args:
        kube: The connection.
        path: The path of the object.
        change: Returns the wanted object, or None for no change.
        within_s: Seconds after which it gives up.
        sleep: Waits between attempts.
        clock: Monotonic seconds.

    Raises:
        NotFound: There is no such object.
        Conflict: Other writers kept changing it for `within_s`.
        Busy: The server was overloaded for `within_s`.
        Unreachable: The outcome is unknown. This is raised at once, because the write may have happened.
    """
    give_up, failures = clock() + within_s, 0
    while True:
        try:
            return await _update_once(kube, path, change)
        except (Conflict, Busy) as error:
            failures += 1
            pause_s = _PAUSE.delay_s(failures, (error.after_s or 1) if isinstance(error, Busy) else 0)
            if clock() + pause_s > give_up:
                raise
        await sleep(pause_s)


async def merge_patch(kube: Kube, path: str, body: object) -> Json:
    """Apply a JSON merge patch and return the object: lists are replaced, None removes; idempotent."""
    return decode(await kube.request("PATCH", path, body=body, content_type=MERGE_PATCH), Json)


async def apply(kube: Kube, path: str, manifest: Mapping[str, Any], manager: str) -> Json:
    """Create or update an object by server-side apply, and return it; fields outside the manifest stay.

    Fields that this manager applied before and no longer lists are removed, unless another manager owns them. Raises
    Refused if the manifest is invalid, and other KubeErrors.
    """
    query = {"fieldManager": manager, "force": "true"}
    try:
        return decode(await kube.request("PATCH", path, query, manifest, APPLY_PATCH), Json)
    except Unreachable as error:
        if _UNTYPED not in str(error):
            raise
        raise Refused(str(error), _UNPROCESSABLE) from error


async def create_if_missing(kube: Kube, collection: str, body: object) -> bool:
    """Create the object; if one of this name exists, change nothing and return False. Raises KubeError."""
    try:
        await kube.request("POST", collection, body=body)
    except AlreadyExists:
        return False
    return True


async def delete_if_present(kube: Kube, path: str, uid: str | None = None, version: str = "") -> bool:
    """Request the deletion of an object; return False if it is gone or has another `uid` or `version`.

    An object with finalizers stays, with a deletionTimestamp, until they are removed.
    """
    conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    body = {"preconditions": conditions} if conditions else None
    try:
        await kube.request("DELETE", path, body=body)
    except (NotFound, Conflict):
        return False
    return True


async def _update_once(kube: Kube, path: str, change: Callable[[Json], Json | None]) -> Json:
    found = decode(await kube.request("GET", path), Json)
    version = found["metadata"]["resourceVersion"]
    wanted = change(found)
    if wanted is None:
        return found
    wanted["metadata"]["resourceVersion"] = version
    return decode(await kube.request("PUT", path, body=wanted), Json)
