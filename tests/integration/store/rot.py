"""Damage at rest that stat does not tell."""

import os
from pathlib import Path

from agent.store.snapshot import MTIME_NS


def flip_a_bit(path: Path) -> None:
    """Change one bit as a disk would: nothing that stat tells is another."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)
    os.utime(path, ns=(MTIME_NS, MTIME_NS))
