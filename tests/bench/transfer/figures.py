"""The figures of runs: medians, and ratios to the floor and to Larder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tests.bench.transfer.contenders.contender import FLOOR, OURS, Way
from tests.bench.transfer.loads import Load
from tests.bench.transfer.rounds import Result

_GB = 1e9


@dataclass(frozen=True)
class Row:
    """One contender's medians, `wall_s` with minimum and maximum; a ratio is None if its baseline is missing."""

    name: str
    way: Way
    verifies: str
    role: str
    wall_s: float
    least_s: float
    most_s: float
    rate_gb_s: float
    cpu_s_per_gb: float
    peak_mb: float
    wall_to_floor: float | None = None
    cpu_to_floor: float | None = None
    wall_to_ours: float | None = None


def rows(load: Load, results: Sequence[Result]) -> list[Row]:
    """Return a row for each contender that has figures, the fastest first."""
    plain = [_row(load, result) for result in results if result.runs]
    return sorted((_compare(row, plain) for row in plain), key=lambda row: row.wall_s)


def _row(load: Load, result: Result) -> Row:
    walls = [run.wall_s for run in result.runs]
    gigabytes = load.total_bytes / _GB
    wall_s = median(walls)
    return Row(
        name=result.contender.name,
        way=result.contender.way,
        verifies=result.contender.verifies,
        role=result.contender.role,
        wall_s=wall_s,
        least_s=min(walls),
        most_s=max(walls),
        rate_gb_s=gigabytes / wall_s,
        cpu_s_per_gb=median(run.cpu_s for run in result.runs) / gigabytes,
        peak_mb=median(run.peak_bytes for run in result.runs) / 1e6,
    )


def _compare(row: Row, rows: Sequence[Row]) -> Row:
    floor, ours = _held_to(row, rows, FLOOR), _held_to(row, rows, OURS)
    return replace(
        row,
        wall_to_floor=row.wall_s / floor.wall_s if floor else None,
        cpu_to_floor=row.cpu_s_per_gb / floor.cpu_s_per_gb if floor else None,
        wall_to_ours=row.wall_s / ours.wall_s if ours else None,
    )


def _held_to(row: Row, rows: Sequence[Row], role: str) -> Row | None:
    """Return the row of that role with the same server: S3 for S3, the static server for all others."""
    same = (other for other in rows if other.role == role and (other.way == Way.S3) == (row.way == Way.S3))
    return next(same, None)
