"""Asking the kernel to write a file's pages to the disk early, so that the sync at its end finds little to do."""

import ctypes

_SYNC_FILE_RANGE_WRITE = 2
_BEHIND_BYTES = 32 * 2**20
_LIBC = ctypes.CDLL(None)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class Writeback:
    """Has a file that is written from its start brought to the disk, so many bytes behind.

    A failure says nothing here: the sync at the end meets it again.
    """

    __slots__ = ("_begun", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._begun = descriptor, 0

    def reach(self, offset: int) -> None:
        """Know that all before `offset` is written to the file."""
        if offset - self._begun >= _BEHIND_BYTES:
            _LIBC.sync_file_range(self._descriptor, self._begun, offset - self._begun, _SYNC_FILE_RANGE_WRITE)
            self._begun = offset
