"""Reads files without displacing the page cache, which holds the weights of running pods."""

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE_BYTES = 2**20
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_FAILED = ctypes.c_void_p(-1).value


@contextmanager
def opened_direct(path: Path) -> Iterator[int]:
    """Yield a descriptor that bypasses the page cache if the file system supports it. Raises OSError."""
    try:
        descriptor = os.open(path, _READ | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.open(path, _READ)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_direct(descriptor: int) -> Iterator[memoryview]:
    """Yield the bytes of a file from its start, one MiB at a time; a piece is valid until the next one. Raises OSError.

    If the file system cannot bypass the page cache, pages that were not cached before are dropped again.
    """
    view = memoryview(mmap.mmap(-1, _PIECE_BYTES))  # page-aligned memory, which O_DIRECT requires
    offset = 0
    while size := _read(descriptor, view, offset):
        yield view[:size]
        offset += size


def _read(descriptor: int, view: memoryview, offset: int) -> int:
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
        try:
            return os.preadv(descriptor, [view], offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_DIRECT)
    return _read_through_cache(descriptor, view, offset)


def _read_through_cache(descriptor: int, view: memoryview, offset: int) -> int:
    absent = absent_pages(descriptor, offset, len(view))
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead, whose pages would stay cached
    size = os.preadv(descriptor, [view], offset)
    for start, end in absent:
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
    return size


def absent_pages(descriptor: int, offset: int, size: int) -> list[tuple[int, int]]:
    """Return the byte ranges, in whole pages, that the page cache does not hold; none if the kernel does not say."""
    size = min(size, os.fstat(descriptor).st_size - offset)
    if size <= 0:
        return []
    address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if address == _FAILED:
        return []
    try:
        held = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        if _LIBC.mincore(address, size, held):
            return []
    finally:
        _LIBC.munmap(address, size)
    return list(_runs_of_zero(bytes(held), offset))


def _runs_of_zero(held: bytes, offset: int) -> Iterator[tuple[int, int]]:
    start: int | None = None
    for page, flags in enumerate((*held, 1)):
        if flags & 1 and start is not None:
            yield offset + start * mmap.PAGESIZE, offset + page * mmap.PAGESIZE
            start = None
        elif not flags & 1 and start is None:
            start = page
