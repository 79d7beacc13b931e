"""What is remembered of a reading, so that no file is read in a loop. No input or output, no clock."""

import hashlib
from datetime import timedelta

from shared.metadata.termination_message import MOST_MESSAGE, Reading, failed

# Raise it when the reader tells something else of the same files, or survives what used to break it: they are read
# again then. Each model costs its source a few requests.
READER = 1
FAILED = "MetadataFailed"  # the reader broke on these files, and would break again
INTERRUPTED = "MetadataInterrupted"  # the reader was killed or too slow, which the machine may be to blame for
MOST_INTERRUPTIONS = 8
_FIRST_WAIT = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(hours=6)
_MOST_DOUBLINGS = 10
_JITTER = 0.25


def identity_of(*parts: str) -> str:
    """Return the name of what is read: metadata counts for it alone."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def identity_of_files(manifest: str) -> str:
    """Return the name of what this reader tells of the files of a manifest, by its digest."""
    return identity_of(manifest, str(READER))


def count_attempts(before: str, attempts: int, reason: str) -> int:
    """Return the number of an attempt that ended for a reason, after one that ended for the reason `before`.

    Interruptions are counted by themselves.
    """
    return 1 if reason == INTERRUPTED != before else attempts + 1


def given_up(reading: Reading, attempts: int) -> Reading:
    """Return the reading, or a failure for good where it was the last of too many interrupted attempts."""
    if reading.reason != INTERRUPTED or attempts < MOST_INTERRUPTIONS:
        return reading
    end = f"; so it went {attempts} times"
    return failed(FAILED, reading.message[: MOST_MESSAGE - len(end)] + end)


def interruption_wait(identity: str, attempts: int) -> timedelta:
    """Return how long to wait after an interrupted attempt: 10 min, doubling up to 6 h, each a quarter more or less."""
    wait = min(_FIRST_WAIT * 2.0 ** min(max(attempts, 1) - 1, _MOST_DOUBLINGS), _LONGEST_WAIT)
    share = int(identity_of(identity, str(attempts))[:8], 16) / 0xFFFFFFFF  # the same each time it is asked
    return wait * (1 - _JITTER + 2 * _JITTER * share)
