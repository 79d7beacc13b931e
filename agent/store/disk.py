"""The port to file system calls that may fail, and the translation of their errors."""

import ctypes
import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Protocol

import psutil

from agent.linux.cgroup import cache_bytes
from shared.errors import InsufficientStorage, LarderError, StoreFailure

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syncfs.argtypes = (ctypes.c_int,)
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REMEDIES = {
    errno.EROFS: "mount it writable",
    errno.EACCES: "make the uid of this process the owner of the directory (chown)",
    errno.EPERM: "make the uid of this process the owner of the directory and everything in it (chown -R)",
    errno.EIO: "check the node's kernel log, and replace the disk if it is failing",
    errno.EMLINK: "this file has as many hard links as the file system allows; remove a model that shares it",
    errno.EOPNOTSUPP: "use a file system with hard links, such as ext4 or xfs",
    errno.EXDEV: "keep everything below the root on one file system",
    errno.EFBIG: "raise the file size limit of this process (ulimit -f)",
    errno.ENOTDIR: "remove the file at this path: a directory belongs there",
    errno.EEXIST: "remove the file at this path: a directory belongs there",
    errno.EISDIR: "remove the directory at this path: a file belongs there",
    errno.ELOOP: "remove the symbolic link",
    errno.ENAMETOOLONG: "use a shorter path",
    errno.EMFILE: "raise the limit on open files of this process (ulimit -n)",
    errno.ENFILE: "raise fs.file-max on the node",
    errno.ENOMEM: "give this process more memory",
}
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Disk(Protocol):
    """File system operations in which tests inject faults."""

    def fsync(self, descriptor: int) -> None:
        """Flush a file or directory to disk.

        Args:
            descriptor: An open file or directory.

        Raises:
            OSError: The system call failed.
        """
        ...

    def sync_all(self, descriptor: int) -> None:
        """Flush a whole file system to disk.

        Args:
            descriptor: An open file or directory on that file system.

        Raises:
            OSError: The system call failed.
        """
        ...

    def free_bytes(self, path: Path) -> int:
        """Return the free space of a file system.

        Args:
            path: An existing path on that file system.

        Returns:
            The number of bytes that this process may still write.

        Raises:
            OSError: The system call failed.
        """
        ...

    def fits_page_cache(self, size_bytes: int) -> bool:
        """Return whether the page cache can keep newly written bytes.

        Args:
            size_bytes: How many bytes will be written.

        Returns:
            False if they should be written past the cache.
        """
        ...


class RealDisk:
    """The kernel's file system."""

    def fsync(self, descriptor: int) -> None:
        """Flush the file or directory to disk."""
        os.fsync(descriptor)

    def sync_all(self, descriptor: int) -> None:
        """Flush the file system to disk."""
        if _LIBC.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def free_bytes(self, path: Path) -> int:
        """Return the free blocks available to this UID, in bytes."""
        return psutil.disk_usage(str(path)).free

    def fits_page_cache(self, size_bytes: int) -> bool:
        """Return whether the bytes take at most half of the memory available to the page cache."""
        return size_bytes <= cache_bytes() // 2


def store_error(error: OSError, doing: str) -> LarderError:
    """Return the error that a failed system call means to the caller."""
    if error.errno in _FULL:
        return InsufficientStorage(
            f"{doing}: {error.strerror}; free space on the file system or raise the quota, and the download resumes"
        )
    remedy = _REMEDIES.get(error.errno or 0, "check the node's file system")
    return StoreFailure(f"{doing}: {error.strerror or error}; {remedy}")


def raise_if_exhausted(error: OSError, doing: str) -> None:
    """Raise StoreFailure if there were too many open files or too little memory: that tells nothing about the disk."""
    if error.errno in _EXHAUSTED:
        raise store_error(error, doing) from error


class translated:  # noqa: N801 - used as a statement; a generator would cost more than many of the calls inside
    """Turn an OSError in the block into InsufficientStorage or StoreFailure whose message says what was being done."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise InsufficientStorage or StoreFailure for an OSError."""
        if isinstance(error, OSError):
            raise store_error(error, self._doing) from error
