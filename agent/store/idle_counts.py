"""Finds unfinished files untouched for long, without a clock: a wall clock may jump by years.

Each round adds one to the count of every file unchanged since the previous round; counts survive restarts.

>>> first = count_round({}, {"a": 5, "b": 7})
>>> count_round(first, {"a": 5, "b": 8, "c": 1})  # b was touched, c is new
{'a': IdleCount(stamp=5, rounds=1), 'b': IdleCount(stamp=8, rounds=0), 'c': IdleCount(stamp=1, rounds=0)}
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from shared.decode_errors import DECODE_ERRORS


class IdleCount(msgspec.Struct, frozen=True, array_like=True):
    """The time stamp last seen, which only identifies a state, and for how many consecutive rounds it was seen."""

    stamp: int
    rounds: int


def count_round(before: Mapping[str, IdleCount], stamps: Mapping[str, int]) -> dict[str, IdleCount]:
    """Return the counts after one more round with these stamps."""
    known = ((key, stamp, before.get(key)) for key, stamp in stamps.items())
    return {
        key: IdleCount(stamp, found.rounds + 1 if found and found.stamp == stamp else 0) for key, stamp, found in known
    }


def read_counts(path: Path) -> dict[str, IdleCount]:
    """Return the counts stored in a file; none if they cannot be read."""
    with suppress(OSError, *DECODE_ERRORS):
        return msgspec.json.decode(path.read_bytes(), type=dict[str, IdleCount])
    return {}


def write_counts(path: Path, counts: Mapping[str, IdleCount]) -> None:
    """Store the counts. Raises OSError."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(counts))
    fresh.rename(path)
