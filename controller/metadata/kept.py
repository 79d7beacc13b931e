"""What a reading leaves in a model's status. No input or output, no clock."""

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec

from shared.api.meta import ReadMetadata
from shared.handover import Reading

FAILED = "MetadataFailed"  # the reader itself broke on these files, and would again
TIME = "%Y-%m-%dT%H:%M:%SZ"
_FIRST_WAIT = timedelta(minutes=15)
_FIRST_WAIT_UNCHECKED = timedelta(minutes=1)  # pods wait for it
_MOST_DOUBLINGS = 10


def identity_of(*parts: str) -> str:
    """Return what names that which is read: metadata counts for it alone."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def again_at(kept: ReadMetadata, longest: timedelta) -> datetime:
    """Return when a reading that failed is tried again; at once where somebody wrote into its time."""
    first, most = (_FIRST_WAIT_UNCHECKED, _FIRST_WAIT) if kept.unchecked else (_FIRST_WAIT, longest)
    wait = min(first * 2.0 ** min(kept.attempts - 1, _MOST_DOUBLINGS), most)
    try:
        return datetime.strptime(kept.time, TIME).replace(tzinfo=UTC) + wait
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def kept_reading(
    reading: Reading, before: ReadMetadata | None, identity: str, attempts: int, now: datetime
) -> ReadMetadata:
    """Return what a reading leaves; what was known `before` of the same stays known where it failed."""
    values = msgspec.to_builtins(reading.metadata) if reading.metadata else (before.values if before else {})
    missing, unchecked = reading.found is False, reading.found is None
    if reading.found is None and before is not None:
        missing, unchecked = before.missing, before.unchecked
    return ReadMetadata(
        identity=identity,
        time=now.strftime(TIME),
        attempts=attempts,
        missing=missing,
        unchecked=unchecked,
        reason=reading.reason,
        message=reading.message,
        parameters_estimated=values.get("parametersFrom") == "estimate",
        values=values,
    )
