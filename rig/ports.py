"""Free ports on loopback."""

import random
import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of the kernel, so that a server can be stopped and still find its port free.
_RANGE = range(15_000, 30_000)
_TRIES = 200
_given = set[int]()  # by this process: their programs may not listen yet, or be stopped for a while


def free_port(candidates: Iterable[int] | None = None) -> int:
    """Return an unused port, never the same twice; other processes may still take it first."""
    for port in candidates or random.sample(_RANGE, _TRIES):
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError(f"no free port on {LOOPBACK} between {_RANGE.start} and {_RANGE.stop}")
