"""What a model's status stores after a reading. No input or output, no clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shared.api.meta import ReadMetadata
from shared.kube.objects import timestamp
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.attempts import INTERRUPTED, interruption_wait
from shared.metadata.reading.termination_message import Reading

MISSING = "MetadataMissing"  # also for an archive, which only nodes can read
CONFLICT = "MetadataConflict"  # nodes report different values for the same files
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_FIRST_WAIT = timedelta(minutes=15)
_FIRST_WAIT_UNCHECKED = timedelta(minutes=1)  # pods are waiting for it
_MAX_DOUBLINGS = 10


def retry_at(stored: ReadMetadata, longest: timedelta) -> datetime:
    """Return when to retry a failed reading; now if its recorded time was tampered with."""
    if stored.reason == INTERRUPTED:
        return _time_of(stored) + interruption_wait(stored.identity, stored.attempts)
    first, most = (_FIRST_WAIT_UNCHECKED, _FIRST_WAIT) if stored.unchecked else (_FIRST_WAIT, longest)
    return _time_of(stored) + min(first * 2.0 ** min(stored.attempts - 1, _MAX_DOUBLINGS), most)


def _time_of(stored: ReadMetadata) -> datetime:
    try:
        return datetime.strptime(stored.time, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def stored_reading(
    reading: Reading, before: ReadMetadata | None, identity: str, attempts: int, now: datetime, node: str = ""
) -> ReadMetadata:
    """Return what to store after a reading; if it failed, the values from `before` are kept.

    `node` is the node that read it, if one did.
    """
    values = as_stored(reading.metadata) if reading.metadata else (before.values if before else {})
    missing, unchecked = reading.found is False, reading.found is None
    if reading.found is None and before is not None:
        missing, unchecked = before.missing, before.unchecked
    return ReadMetadata(
        identity=identity,
        time=timestamp(now),
        attempts=attempts,
        node=node,
        missing=missing,
        unchecked=unchecked,
        reason=reading.reason,
        message=reading.message,
        parameters_estimated=values.get("parametersFrom") == "estimate",
        values=values,
    )


def as_stored(found: Metadata) -> dict[str, Any]:
    """Return metadata as the API server returns it, for comparison with later reports."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return values
