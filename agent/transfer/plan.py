"""The order in which files are downloaded, and which of them count as small."""

from collections.abc import Iterable

from shared.manifest import File

SMALL_BYTES = 4 * 2**20
SMALL_AT_A_TIME = 4  # for each large one: they cost round trips, not bandwidth


def split_by_size(files: Iterable[File]) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """Return the large files and the small ones, the largest first."""
    ordered = sorted(files, key=lambda f: (-f.size, f.path))
    large = tuple(f for f in ordered if f.size > SMALL_BYTES)
    return large, tuple(ordered[len(large) :])
