"""Which unfinished files nobody has touched for long, told without a clock: a wall clock may jump by years.

Each look counts one more round for what stands as the look before found it; the counts are kept across restarts.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec


class Idle(msgspec.Struct, frozen=True, array_like=True):
    """The time stamp that was seen, as a name for a state and not as a time, and in how many looks in a row."""

    stamp: int
    rounds: int


def counted(before: Mapping[str, Idle], stamps: Mapping[str, int]) -> dict[str, Idle]:
    """Return the counts after one more look at what stands there now."""
    known = ((key, stamp, before.get(key)) for key, stamp in stamps.items())
    return {key: Idle(stamp, found.rounds + 1 if found and found.stamp == stamp else 0) for key, stamp, found in known}


def read_counts(path: Path) -> dict[str, Idle]:
    """Return the counts that are kept in a file; none where there are none that can be read."""
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Idle])
    return {}


def write_counts(path: Path, counts: Mapping[str, Idle]) -> None:
    """Keep the counts. Raises OSError."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(counts))
    fresh.rename(path)
