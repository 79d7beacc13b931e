"""Starts writeback of a file early, so that its final sync has little left to do."""

import ctypes

_SYNC_FILE_RANGE_WRITE = 2
_BEHIND_BYTES = 32 * 2**20
_LIBC = ctypes.CDLL(None)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class Writeback:
    """Flushes a sequentially written file in the background, a fixed number of bytes behind the writer.

    Errors are ignored: the final sync reports them again.
    """

    __slots__ = ("_begun", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._begun = descriptor, 0

    def reach(self, offset: int) -> None:
        """Record that everything before `offset` is written to the file."""
        if offset - self._begun >= _BEHIND_BYTES:
            _LIBC.sync_file_range(self._descriptor, self._begun, offset - self._begun, _SYNC_FILE_RANGE_WRITE)
            self._begun = offset
