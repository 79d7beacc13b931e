"""Identifies readings and counts their attempts, so that no file is read in a loop. No input or output, no clock."""

import hashlib
from datetime import timedelta

from shared.metadata.reading.termination_message import MAX_MESSAGE, Reading, failed

# Increase it when the reader returns other results for the same files, or no longer fails on some. All models are then
# read again, which costs each source a few requests per model.
READER = 1
FAILED = "MetadataFailed"  # the reader failed on these files, and would fail again
INTERRUPTED = "MetadataInterrupted"  # the reader was killed or too slow, perhaps because the machine is overloaded
MAX_INTERRUPTIONS = 8
_FIRST_WAIT = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(hours=6)
_MAX_DOUBLINGS = 10
_JITTER = 0.25


def identity_of(*parts: str) -> str:
    """Return the identity of what is read; metadata is valid only for it."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def identity_of_files(manifest: str) -> str:
    """Return the identity of this reader's result for a manifest, given its digest."""
    return identity_of(manifest, str(READER))


def count_attempts(before: str, attempts: int, reason: str) -> int:
    """Return the number of an attempt that ended for `reason`, after one that ended for `before`.

    The first interruption after another reason is 1.
    """
    return 1 if reason == INTERRUPTED != before else attempts + 1


def given_up(reading: Reading, attempts: int) -> Reading:
    """Return the reading, or a permanent failure after too many interrupted attempts."""
    if reading.reason != INTERRUPTED or attempts < MAX_INTERRUPTIONS:
        return reading
    end = f"; this happened {attempts} times"
    return failed(FAILED, reading.message[: MAX_MESSAGE - len(end)] + end)


def interruption_wait(identity: str, attempts: int) -> timedelta:
    """Return the wait after an interrupted attempt: from 10 min, doubling up to 6 h, plus or minus a quarter."""
    wait = min(_FIRST_WAIT * 2.0 ** min(max(attempts, 1) - 1, _MAX_DOUBLINGS), _LONGEST_WAIT)
    share = int(identity_of(identity, str(attempts))[:8], 16) / 0xFFFFFFFF  # deterministic
    return wait * (1 - _JITTER + 2 * _JITTER * share)
