"""The contents of directories."""

import subprocess
from pathlib import Path


def du_bytes(root: Path) -> int:
    """Return the size of a directory according to `du`."""
    counted = subprocess.run(["du", "-s", "-B1", str(root)], capture_output=True, text=True, check=True)  # noqa: S603, S607 - the judge
    return int(counted.stdout.split()[0])


def files_of(snapshot: Path) -> set[str]:
    """Return the paths of a snapshot's files, without the completion mark."""
    return {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file()} - {".completed"}
