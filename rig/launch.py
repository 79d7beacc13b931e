"""Replaces itself with another program, which dies with the thread that started it.

Run as `python -I -S launch.py SIGNAL PARENT_PID PROGRAM ARGUMENTS...`; uses only the standard library.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Request the death signal, check that the parent still lives, and exec."""
    signal_number, parent, program = int(argv[0]), int(argv[1]), argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:  # the parent died before the request
        raise SystemExit(1)
    os.execv(program[0], program)  # noqa: S606 - becoming that program is what this file is for


if __name__ == "__main__":
    main(sys.argv[1:])
