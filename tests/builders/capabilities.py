"""Takes root's power over files away from a thread, so that tests that run as root meet file permissions, too."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None, use_errno=True)
_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_OVER_FILES = 1 << 1 | 1 << 2 | 1 << 3  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def without_power_over_files() -> Iterator[None]:
    """Let file permissions apply to this thread, whatever its user."""
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    _check(_LIBC.capget(ctypes.byref(header), sets))
    effective = sets[0].effective
    sets[0].effective = effective & ~_OVER_FILES
    _check(_LIBC.capset(ctypes.byref(header), sets))
    try:
        yield
    finally:
        sets[0].effective = effective
        _check(_LIBC.capset(ctypes.byref(header), sets))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
