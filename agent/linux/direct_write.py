"""Writing past the page cache: straight from our memory to the disk, whole pages at a time."""

import errno
import mmap
import os

PAGE_BYTES = mmap.PAGESIZE
_REFUSED = {errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP}  # ENOENT: no /proc here


class DirectWriter:
    """A second way to write to an open file.

    File systems that have no block device of their own (network, memory, overlays) are left alone: there a write past
    the cache may be a round trip, or is not what it says. Not thread-safe.
    """

    __slots__ = ("_descriptor", "_file", "_works")

    def __init__(self, descriptor: int) -> None:
        self._file, self._descriptor, self._works = descriptor, -1, True

    def write(self, data: memoryview, offset: int) -> int:
        """Write the whole pages that `data` begins with; returns how many bytes, 0 where they cannot go this way.

        `data` must begin with a page in memory, `offset` in the file. Raises OSError.
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
        """Close what was opened."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        if self._descriptor < 0:
            if not os.major(os.fstat(self._file).st_dev):
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
            # By its descriptor, so that it is this file, whatever stands under its name by now.
            self._descriptor = os.open(f"/proc/self/fd/{self._file}", os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        return self._descriptor
