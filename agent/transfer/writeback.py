"""Asking the kernel to write a file's pages to the disk early, so that the sync at its end finds little to do."""

import ctypes

_SYNC_FILE_RANGE_WRITE = 2
_LIBC = ctypes.CDLL(None)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def start_writeback(descriptor: int, offset: int, size_bytes: int) -> None:
    """Begin to write this part of a file. A failure says nothing here: the sync at the end meets it again."""
    _LIBC.sync_file_range(descriptor, offset, size_bytes, _SYNC_FILE_RANGE_WRITE)
