"""The calling thread behind everybody else: by the CPU's scheduler and by the disk's."""

import threading
from contextlib import suppress

import psutil

_LOWEST = 19


def lower_priority() -> None:
    """Give this thread the lowest priorities; where the kernel refuses, it keeps those that it has."""
    with suppress(psutil.Error, OSError):
        thread = psutil.Process(threading.get_native_id())  # on Linux priorities are those of threads
        thread.nice(_LOWEST)
        thread.ionice(psutil.IOPRIO_CLASS_IDLE)
