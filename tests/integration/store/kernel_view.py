"""What the kernel reports about a process: the priorities of its threads, and the flags of its open files."""

import ctypes
import errno
import os
import platform
from pathlib import Path

import pytest

IDLE = 3  # the disk scheduler serves this class only when the disk is idle
_IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
_WHO_PROCESS, _CLASS_SHIFT = 1, 13
_NICE_AFTER_NAME = 16
_LIBC = ctypes.CDLL(None, use_errno=True)


def nice_of(pid: int, thread: int) -> int:
    """Return the nice value of a thread, by its native id."""
    stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[_NICE_AFTER_NAME])


def io_class_of(thread: int) -> int:
    """Return the I/O class of a thread, by its native id; 0 if the thread has ended.

    Skips the test if the system reports no classes.
    """
    number = _IOPRIO_GET.get(platform.machine())
    found = _LIBC.syscall(number, _WHO_PROCESS, thread) if number else -1
    if found < 0 and number and ctypes.get_errno() == errno.ESRCH:
        return 0
    if found < 0:
        pytest.skip("this machine does not report I/O priorities")
    return int(found) >> _CLASS_SHIFT


def threads_of(pid: int) -> list[int]:
    """Return the native ids of all threads of a process."""
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def flags_of_open(pid: int, folder: Path) -> list[int]:
    """Return the flags of each open file descriptor of the process below `folder`, which may itself be open."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if folder not in link.readlink().parents:
                continue
            info = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
        except FileNotFoundError:
            continue  # the file was closed meanwhile
        found.append(next(int(line.split()[1], 8) for line in info.splitlines() if line.startswith("flags:")))
    return found


def skip_without_direct_reads(path: Path) -> None:
    """Skip the test if the file system of this file does not support direct reads."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no way past the page cache")
