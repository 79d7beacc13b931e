"""Directories of links: built, repaired and removed without ever following a symbolic link."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.store.disk import Disk
from shared.paths import COMPLETED

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEALED, _OPEN = 0o555, 0o755


@contextmanager
def opened_directory(path: str | Path, dir_fd: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory. Raises OSError for a symbolic link or anything else."""
    descriptor = os.open(path, _DIRECTORY, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_directory(path: Path, disk: Disk) -> None:
    """Flush the names in the directory to disk."""
    with opened_directory(path) as descriptor:
        disk.fsync(descriptor)


def build_snapshot(target: Path, blobs: Mapping[str, Path], mark: bytes, disk: Disk) -> None:
    """Create a durable, read-only directory of hard links by path, with its mark. Raises OSError."""
    target.mkdir(_OPEN)
    directories = [target]
    for parent in sorted({part for path in blobs for part in parents_of(path)}):  # parents sort before their contents
        (target / parent).mkdir(_OPEN)
        directories.append(target / parent)
    for path, blob in blobs.items():
        os.link(blob, target / path, follow_symlinks=False)
    _write_mark(target / COMPLETED, mark, disk)
    for directory in directories:
        sync_directory(directory, disk)
        directory.chmod(_SEALED)


def put_file(top: Path, path: str, blob: Path, disk: Disk) -> None:
    """Replace `path`, which may be missing, damaged or a planted link, with a new link to the blob. Raises OSError."""
    *parents, name = path.split("/")
    with opened_directory(top) as descriptor:
        _put_link(descriptor, parents, name, blob, disk)


def put_mark(top: Path, mark: bytes, disk: Disk) -> None:
    """Rewrite the mark of a snapshot. Raises OSError."""
    fresh = f".new-{secrets.token_hex(4)}"
    with opened_directory(top) as descriptor, _unsealed(descriptor):
        _clear(descriptor, COMPLETED)
        _write_mark(top / fresh, mark, disk)
        os.rename(fresh, COMPLETED, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        disk.fsync(descriptor)


def remove_tree(path: Path) -> None:
    """Remove `path` and everything below it; a symbolic link is removed, its target stays.

    If permissions keep a part of it, everything else is still removed. Raises OSError.
    """
    with opened_directory(path.parent) as descriptor:
        _remove(descriptor, path.name)


def parents_of(path: str) -> Iterator[str]:
    """Yield the parent directories of a relative path, from the top."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def blocks_bytes(size_bytes: int, block: int) -> int:
    """Return the bytes of the blocks that hold this many bytes.

    >>> blocks_bytes(1, 4096), blocks_bytes(4096, 4096), blocks_bytes(0, 4096)
    (4096, 4096, 0)
    """
    return -(-size_bytes // block) * block


def has_only_directories(path: Path) -> bool:
    """Return whether there are only directories here, as a container runtime creates them."""
    try:
        with os.scandir(path) as entries:
            return all(e.is_dir(follow_symlinks=False) and has_only_directories(path / e.name) for e in entries)
    except OSError:
        return False


def allocated_bytes(top: Path) -> int:
    """Return the allocated blocks of a directory and all below in bytes, each inode counted once, as `du` counts."""
    return sum(found.st_blocks * 512 for found in _distinct(_stats(top)))


def lasting_bytes(top: Path) -> int:
    """Return `allocated_bytes` without the blocks that a file system preallocates past the end of a growing file."""
    return sum(_lasting(found) for found in _distinct(_stats(top)))


def _lasting(found: os.stat_result) -> int:
    blocks = found.st_blocks * 512
    return min(blocks, blocks_bytes(found.st_size, found.st_blksize)) if stat.S_ISREG(found.st_mode) else blocks


def _distinct(stats: Iterable[os.stat_result]) -> Iterator[os.stat_result]:
    seen: set[int] = set()
    for found in stats:
        if found.st_ino not in seen:  # one root is one file system
            seen.add(found.st_ino)
            yield found


def _stats(top: Path) -> Iterator[os.stat_result]:
    # Directories that were removed meanwhile, or that only root may read, such as `lost+found`, do not count.
    with suppress(FileNotFoundError, PermissionError), os.scandir(top) as entries:
        yield top.lstat()
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _stats(top / entry.name)
            else:
                with suppress(FileNotFoundError):
                    yield entry.stat(follow_symlinks=False)


def _write_mark(path: Path, mark: bytes, disk: Disk) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    with os.fdopen(descriptor, "wb") as file:
        file.write(mark)
        file.flush()
        os.fchmod(descriptor, 0o444)
        disk.fsync(descriptor)


def _put_link(directory: int, parents: list[str], name: str, blob: Path, disk: Disk) -> None:
    with _unsealed(directory):
        if parents:
            _ensure_directory(directory, parents[0])
            with opened_directory(parents[0], directory) as below:
                _put_link(below, parents[1:], name, blob, disk)
        else:
            _clear(directory, name)
            fresh = f".new-{secrets.token_hex(4)}"
            os.link(blob, fresh, dst_dir_fd=directory, follow_symlinks=False)
            os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
            with suppress(FileNotFoundError):  # renaming an inode over itself leaves both names
                os.unlink(fresh, dir_fd=directory)
        disk.fsync(directory)


@contextmanager
def _unsealed(directory: int) -> Iterator[None]:
    os.fchmod(directory, _OPEN)
    try:
        yield
    finally:
        os.fchmod(directory, _SEALED)


def _ensure_directory(parent: int, name: str) -> None:
    found = _lstat(parent, name)
    if found and not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        found = None
    if not found:
        os.mkdir(name, _OPEN, dir_fd=parent)


def _clear(parent: int, name: str) -> None:
    """Clear the target of a rename: only a directory is in its way."""
    found = _lstat(parent, name)
    if found and stat.S_ISDIR(found.st_mode):
        _remove(parent, name)


def _remove(parent: int, name: str) -> None:
    found = _lstat(parent, name)
    if not found:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    kept: PermissionError | None = None
    with opened_directory(name, parent) as directory:
        with suppress(PermissionError):  # not ours: its owner's modes decide below
            os.fchmod(directory, 0o700)
        for below in os.listdir(directory):  # noqa: PTH208 - by descriptor: a path could be swapped on the way
            try:
                _remove(directory, below)
            except PermissionError as error:
                kept = error
    if kept:
        raise kept
    os.rmdir(name, dir_fd=parent)


def _lstat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
