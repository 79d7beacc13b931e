"""Damage at rest that stat does not show."""

import os
from pathlib import Path

from agent.store.snapshot import MTIME_NS


def flip_a_bit(path: Path) -> None:
    """Change one bit as a disk would: the result of stat stays the same."""
    found = path.stat()
    middle = found.st_size // 2
    path.chmod(0o644)
    with path.open("r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, middle)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x10]), middle)
        os.utime(file.fileno(), ns=(MTIME_NS, MTIME_NS))  # in one call, because an agent may scan at any moment
        os.fsync(file.fileno())
    path.chmod(found.st_mode)
