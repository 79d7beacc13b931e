"""Small file systems."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tmpfs(path: Path, size: str) -> Iterator[Path]:
    """Mount a tmpfs of this size, such as "6m", on a new directory; skip the test if mounting is not permitted."""
    path.mkdir()
    mounted = subprocess.run(  # noqa: S603 - fixed arguments
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "larder-test", str(path)],  # noqa: S607 - found on PATH
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs takes root")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)  # noqa: S603, S607 - as above
