"""What the process itself uses."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Figures:
    """Resident memory in bytes, and open file descriptors."""

    memory_bytes: int
    open_files: int


def read_figures() -> Figures:
    """Return the figures of this process."""
    process = psutil.Process()
    with process.oneshot():
        return Figures(process.memory_info().rss, process.num_fds())
