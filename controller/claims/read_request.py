"""Whether the files on a claim have to be read. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.claims.view import ClaimView
from controller.metadata.fill import is_written
from controller.metadata.stored_reading import retry_at
from shared.api.meta import ReadMetadata
from shared.metadata.reading.attempts import identity_of

JOB_PREFIX = "larder-extract-"
LONGEST_WAIT = timedelta(minutes=60)


@dataclass(frozen=True, slots=True)
class ClaimReadRequest:
    """A request to read the files: the identity of claim and sub-path, the attempt, and the name of the Job."""

    identity: str
    attempt: int
    job: str


def stored_metadata(view: ClaimView) -> ReadMetadata | None:
    """Return what is known about exactly this claim and sub-path."""
    stored = view.status.metadata
    return stored if stored is not None and stored.identity == _identity(view) else None


def request_of(view: ClaimView, now: datetime) -> ClaimReadRequest | None:
    """Return the request to read the files now; None if that is done, not wanted, or not due for a retry yet."""
    if view.claim is None or view.skip:
        return None
    last, identity = view.status.metadata, _identity(view)
    written = is_written(view.spec, last)
    if last is None and written and not view.demand.refresh:
        return None
    if last is None or last.identity != identity or view.demand.refresh_pending:
        return _request(view, identity, 1)
    if not last.reason or now < retry_at(last, LONGEST_WAIT) or (written and not last.missing):
        return None
    return _request(view, identity, last.attempts + 1)


def _identity(view: ClaimView) -> str:
    """Return what identifies a claim and a sub-path: a recreated claim of the same name is a different one."""
    return identity_of(view.claim.metadata.uid if view.claim else "", view.place.sub_path)


def _request(view: ClaimView, identity: str, attempt: int) -> ClaimReadRequest:
    last = view.status.metadata.time if view.status.metadata else ""
    name = identity_of(view.demand.uid, identity, view.demand.refresh, last)
    return ClaimReadRequest(identity, attempt, f"{JOB_PREFIX}{name}")
