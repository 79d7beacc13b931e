"""Network namespaces: entered by a single thread, or by programs that we start."""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.errors import StartFailed

_CLONE_NEWNET = 0x40000000
OWN = Path("/proc/thread-self/ns/net")


def network_of(pid: int) -> Path:
    """Return the file of the network namespace of a process."""
    return Path(f"/proc/{pid}/ns/net")


def enter_network(namespace: Path) -> None:
    """Move only the calling thread to a network; sockets that it creates from now on belong there."""
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(namespace))
    finally:
        os.close(descriptor)


@contextmanager
def within_network(namespace: Path) -> Iterator[None]:
    """Run a block with the calling thread in a network; sockets created there keep working afterwards."""
    own = os.open(OWN, os.O_RDONLY)
    try:
        enter_network(namespace)
        try:
            yield
        finally:
            enter_network(Path(f"/proc/self/fd/{own}"))
    finally:
        os.close(own)


def command(argv: Sequence[str], stdin: str = "") -> str:
    """Run a short program and return its output; raises StartFailed with the error."""
    ran = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise StartFailed(f"{' '.join(argv)} ended with exit code {ran.returncode}: {ran.stderr}{ran.stdout}")
    return ran.stdout
