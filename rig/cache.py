"""The cache of binaries: one builder at a time, whole files only."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.binaries import Binary, cached
from rig.errors import SetupFailed
from rig.progress import Notify

_WORKSPACE = "work-"


@contextmanager
def locked(cache: Path, notify: Notify) -> Iterator[None]:
    """Hold the lock of the cache, after waiting for any other setup that holds it."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("a")
    except OSError as error:
        raise SetupFailed(f"the cache {cache} cannot be written: {error}; set LARDER_CACHE to another place") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"waiting for another setup, which holds {cache / 'lock'} ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.glob(f"{_WORKSPACE}*"):  # we hold the lock, so their run was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextmanager
def workspace(cache: Path) -> Iterator[Path]:
    """Provide a temporary directory on the disk of the cache."""
    path = Path(tempfile.mkdtemp(prefix=_WORKSPACE, dir=cache))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def install(binary: Binary, built: Path, cache: Path) -> Path:
    """Move a finished program from a workspace to its place, atomically."""
    place = cached(binary, cache)
    place.parent.mkdir(parents=True, exist_ok=True)
    built.chmod(0o755)
    os.replace(built, place)  # noqa: PTH105 - the name says what matters: an atomic replacement
    return place
