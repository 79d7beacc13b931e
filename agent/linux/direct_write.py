"""Writes whole pages to disk, bypassing the page cache."""

import errno
import mmap
import os

PAGE_BYTES = mmap.PAGESIZE
_REFUSED = {errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP}  # ENOENT: there is no /proc


class DirectWriter:
    """Writes to an open file through a second descriptor, which bypasses the page cache.

    File systems without a block device of their own (network, memory, overlay) are refused: there, such a write may
    cost a round trip, or go through the cache all the same. Not thread-safe.
    """

    __slots__ = ("_descriptor", "_file", "_works")

    def __init__(self, descriptor: int) -> None:
        self._file, self._descriptor, self._works = descriptor, -1, True

    def write(self, data: memoryview, offset: int) -> int:
        """Write the whole pages at the start of `data`; return how many bytes, 0 if they cannot bypass the cache.

        `data` must be page-aligned in memory and `offset` in the file. Raises OSError.
        """
        size = len(data) // PAGE_BYTES * PAGE_BYTES
        if not self._works or not size or offset % PAGE_BYTES:
            return 0
        try:
            return os.pwrite(self._opened(), data[:size], offset)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self._works = False
            return 0

    def close(self) -> None:
        """Close the second descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        if self._descriptor < 0:
            if not os.major(os.fstat(self._file).st_dev):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
            # By descriptor, so that it is this very file, even if its name now refers to another.
            self._descriptor = os.open(f"/proc/self/fd/{self._file}", os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        return self._descriptor
