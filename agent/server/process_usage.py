"""Resource usage of this process."""

from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resident memory in bytes, and open file descriptors."""

    memory_bytes: int
    open_files: int


def read_process_usage() -> ProcessUsage:
    """Return the current usage of this process."""
    process = psutil.Process()
    with process.oneshot():
        return ProcessUsage(process.memory_info().rss, process.num_fds())
