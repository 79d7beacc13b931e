"""Samples the memory of a running process, and the bytes that it has written."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.transfer.measure import RunFailed

_EVERY_S = 0.05


@dataclass(frozen=True)
class Samples:
    """(seconds since the start, value) in order."""

    points: tuple[tuple[float, float], ...]

    def at(self, moment_s: float) -> float:
        """Return the value at a moment, interpolated linearly."""
        for (before_s, low), (after_s, high) in zip(self.points, self.points[1:], strict=False):
            if before_s <= moment_s <= after_s:
                return low + (high - low) * (moment_s - before_s) / (after_s - before_s)
        raise ValueError(f"{moment_s} s is not within the samples")


def watch(argv: Sequence[str], env: Mapping[str, str], log: Path, read: Callable[[int], float | None]) -> Samples:
    """Run a program to its end and sample it; `read` gets its process id. Raises RunFailed."""
    points: list[tuple[float, float]] = []
    with log.open("wb") as out:
        started = time.monotonic()
        child = subprocess.Popen(  # noqa: S603 - our own programs
            argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            while child.poll() is None:
                if (value := read(child.pid)) is not None:
                    points.append((time.monotonic() - started, value))
                time.sleep(_EVERY_S)
        finally:
            child.kill()
            child.wait()
    if child.returncode:
        raise RunFailed(f"{argv[0]} ended with exit code {child.returncode}: {log.read_text(errors='replace')[-500:]}")
    return Samples(tuple(points))


def resident_mb(pid: int) -> float | None:
    """Return the resident memory of a process, None when it has ended."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:", 1024 / 1e6)


def written_bytes(pid: int) -> float | None:
    """Return how many bytes a process has passed to write calls so far, None when it has ended."""
    return _field(Path(f"/proc/{pid}/io"), "wchar:", 1.0)


def _field(path: Path, name: str, factor: float) -> float | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) * factor for line in lines if line.startswith(name)), None)
