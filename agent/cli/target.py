"""The directory that `larder fetch` fills: what is right in it already, and how a file gets its place."""

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from agent.store.disk import translated
from agent.transfer.verify import Check
from shared.errors import DigestMismatch, UnsafePath
from shared.manifest import File, Manifest

WORK_DIRECTORY = ".larder"
_BUFFER_BYTES = 2**20


def check_manifest(manifest: Manifest) -> None:
    """Raise UnsafePath where a file would stand in the way of our own directory."""
    for file in manifest.files:
        if file.path.split("/")[0] == WORK_DIRECTORY:
            raise UnsafePath(f"file name {file.path!r} is below our own directory {WORK_DIRECTORY}")


def is_right(target: Path, file: File, count: Callable[[int], None]) -> bool:
    """Tell whether the file is in its place, whole, and what the publisher named; without a digest the size decides.

    `count` is told the bytes as they are read. Raises StoreFailure, UnsafePath.
    """
    path = _place(target, file.path)
    with translated(f"reading {path}"):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.size:
            return False
        if not file.digest:
            count(file.size)
            return True
        return _verifies(path, file, count)


def place_files(target: Path, files: Mapping[str, Path], now_ns: int) -> None:
    """Link blobs, by path, to their places as plain files of the caller. Raises StoreFailure, UnsafePath."""
    for name, blob in files.items():
        path = _place(target, name)
        with translated(f"placing {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = target / WORK_DIRECTORY / f"place-{hashlib.sha256(name.encode()).hexdigest()}"
            fresh.unlink(missing_ok=True)
            os.link(blob, fresh, follow_symlinks=False)
            fresh.chmod(0o644)
            os.utime(fresh, ns=(now_ns, now_ns))
            fresh.rename(path)
            fresh.unlink(missing_ok=True)  # a rename of one inode over itself leaves both names


def _place(target: Path, name: str) -> Path:
    """Return where a file goes; UnsafePath where a symbolic link on the way would lead out of the directory."""
    path = target / name
    for parent in path.parents:
        if parent == target:
            return path
        if parent.is_symlink():
            raise UnsafePath(f"{parent} is a symbolic link, which might lead out of {target}; remove it")
    return path


def _verifies(path: Path, file: File, count: Callable[[int], None]) -> bool:
    check, buffer = Check(file), memoryview(bytearray(_BUFFER_BYTES))
    with path.open("rb", buffering=0) as opened:
        while size := opened.readinto(buffer):
            check.feed(buffer[:size])
            count(size)
    with suppress(DigestMismatch):
        check.verify()
        return True
    count(-file.size)
    return False
