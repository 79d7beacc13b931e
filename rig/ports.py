"""Free ports on loopback, each reserved for one of the rigs that run on this machine."""

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of the kernel, so that a server can be stopped and still find its port free; above the
# ports of docs/tutorials, which tests use as they are.
RANGE = range(20_000, 30_000)
_TRIES = 200
_given = set[int]()  # by this process; their programs may not listen yet, or may be stopped for a while


def free_port(candidates: Iterable[int] | None = None) -> int:
    """Return an unused port that neither this process nor another running rig has been given.

    Programs that are not ours may still take it first.
    """
    for port in candidates or random.sample(RANGE, _TRIES):
        if port in _given or not _reserve(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError(f"no free port on {LOOPBACK} between {RANGE.start} and {RANGE.stop}")


def _reserve(port: int) -> bool:
    """Lock the port's byte in a file until this process ends; return False if another rig of this user holds it."""
    with suppress(BlockingIOError, PermissionError):  # lockf raises either
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


@cache
def _reservations() -> int:
    """Return the descriptor of the lock file, which stays open: closing it would release all locks of the process."""
    path = Path(tempfile.gettempdir()) / f"larder-rig-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
