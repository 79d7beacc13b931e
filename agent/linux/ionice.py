"""Runs the calling thread at the lowest CPU and disk priority."""

import threading
from contextlib import suppress

import psutil

_LOWEST = 19


def lower_priority() -> None:
    """Give this thread the lowest priorities; if the kernel refuses, they stay as they are."""
    with suppress(psutil.Error, OSError):
        thread = psutil.Process(threading.get_native_id())  # on Linux, threads have priorities of their own
        thread.nice(_LOWEST)
        thread.ionice(psutil.IOPRIO_CLASS_IDLE)
