"""One process per store: the lock on its root, and a record of who holds it."""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from shared.errors import StoreFailure

_FULL = {errno.ENOSPC, errno.EDQUOT}


def lock_directory(directory: Path, holder: Path) -> int:
    """Lock a directory and record the holder; return the descriptor of the lock. Raises StoreFailure, OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreFailure(
            f"{directory} is in use by {_read_holder(holder)}; end that process or choose another directory"
        ) from None
    try:
        with suppress(FileNotFoundError):
            holder.unlink()
        holder.write_text(f"{os.getpid()} {socket.gethostname()}\n")
    except OSError as error:
        if error.errno not in _FULL:  # only this process can make room, and the record only serves a message
            os.close(descriptor)
            raise
    return descriptor


def unlock(descriptor: int) -> None:
    """Release the lock and close its descriptor, even if a child process that is just starting still has a copy."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _read_holder(holder: Path) -> str:
    try:
        pid, _, host = holder.read_text().partition(" ")
    except OSError:
        return "another process"
    return f"process {pid} on {host.strip()}" if host else "another process"  # the disk was full
