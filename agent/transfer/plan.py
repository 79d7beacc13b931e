"""In which order and how many at a time files are fetched."""

from collections.abc import Iterable
from dataclasses import dataclass

from shared.manifest import File

SMALL_BYTES = 4 * 2**20
_SMALL_AT_A_TIME = 4  # for each large one: they cost round trips, not bandwidth


@dataclass(frozen=True, slots=True)
class Lane:
    """Files that are fetched `width` at a time, in this order."""

    files: tuple[File, ...]
    width: int


def plan_lanes(files: Iterable[File], concurrency: int) -> tuple[Lane, ...]:
    """Return the lanes that run side by side: large files, the largest first, and small ones, many at a time."""
    ordered = sorted(files, key=lambda f: (-f.size, f.path))
    large = tuple(f for f in ordered if f.size > SMALL_BYTES)
    small = tuple(f for f in ordered if f.size <= SMALL_BYTES)
    lanes = (Lane(large, concurrency), Lane(small, _SMALL_AT_A_TIME * concurrency))
    return tuple(lane for lane in lanes if lane.files)
