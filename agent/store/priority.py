"""The calling thread behind everybody else: by the CPU's scheduler and by the disk's."""

import ctypes
import os
import platform
from contextlib import suppress

_LOWEST = 19
_WHO_PROCESS, _CLASS_IDLE, _CLASS_SHIFT = 1, 3, 13
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_LIBC = ctypes.CDLL(None, use_errno=True)


def yield_to_all() -> None:
    """Give this thread the lowest priorities; where the kernel refuses, it keeps those that it has."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)  # on Linux this is the calling thread alone
    if number := _IOPRIO_SET.get(platform.machine()):
        _LIBC.syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT)
