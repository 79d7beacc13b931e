"""Change one object on the API server without losing anybody else's change."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shared.kube.backoff import Backoff
from shared.kube.collection import decode
from shared.kube.errors import Busy, Conflict, NotFound, Refused, Unreachable
from shared.kube.transport import APPLY_PATCH, MERGE_PATCH, Kube

Json = dict[str, Any]
_UNTYPED = "failed to create typed patch object"  # said with 500, of a field that the kind does not have
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
    """Read, change and PUT with the version read, again after a conflict; None from `change` is no change.

    The whole object passes through `change`, so fields we do not know survive. It may be called several times, on what
    an earlier call wrote too, so it must state a goal and not a step. Raises NotFound; Conflict or Busy after
    `within_s`; Unreachable at once, for then the write may have happened.
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
    """Merge the body into the object and return it; lists are replaced whole, None removes, a repeat writes nothing."""
    return decode(await kube.request("PATCH", path, body=body, content_type=MERGE_PATCH), Json)


async def apply(kube: Kube, path: str, manifest: Mapping[str, Any], manager: str) -> Json:
    """Have the object say what the manifest says, making it where it is not there, and return it; all else stays.

    What this manager stated before and states no more goes, unless another manager states it. Raises Refused where the
    manifest is wrong, other KubeErrors.
    """
    query = {"fieldManager": manager, "force": "true"}
    try:
        return decode(await kube.request("PATCH", path, query, manifest, APPLY_PATCH), Json)
    except Unreachable as error:
        if _UNTYPED not in str(error):
            raise
        raise Refused(str(error), _UNPROCESSABLE) from error


async def create_if_missing(kube: Kube, collection: str, body: object) -> bool:
    """Create the object in the collection; False when one of its name is there, which stays as it is."""
    try:
        await kube.request("POST", collection, body=body)
    except Conflict:
        return False
    return True


async def delete_if_present(kube: Kube, path: str, uid: str | None = None, version: str = "") -> bool:
    """Ask for the object's deletion; False when it is gone, or another than `uid`, or than its `version`, has its name.

    With finalizers it stays, with a deletionTimestamp, until they are gone.
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
