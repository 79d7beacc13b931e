"""The child process that reads one model: takes a request on standard input, writes a reading to standard output.

It parses untrusted files, so it limits itself first, and it exits after one reading.
"""

import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

import msgspec

from shared.metadata.reading.termination_message import Reading, encode_reading

OUT_OF_MEMORY = 3
_STACK_BYTES = 2**20  # per thread; all of it counts as address space
_MAX_FILES = 256
_GRACE_S = 5


class ChildLimits(msgspec.Struct, frozen=True):
    """Limits of one process: CPU time in seconds, address space in bytes, and seconds until it is killed."""

    cpu_s: int = 60
    memory_bytes: int = 320 * 2**20
    wall_s: float = 150.0  # a source may take 120 s of these


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that all requests share."""

    limits: ChildLimits = ChildLimits()


T = TypeVar("T", bound=ReadRequest)


def serve_request(kind: type[T], read: Callable[[T], Reading]) -> None:
    """Read the request, write the reading, and exit the process.

    The exit code is 0, OUT_OF_MEMORY, 1 for a bug of ours, or that of a signal.
    """
    try:
        request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=kind)
        confine(request.limits)
        body = encode_reading(read(request))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # the other threads have no memory either
    except Exception:  # noqa: BLE001 - the parent logs the output
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    os._exit(0)  # do not wait for a thread that is blocked on a silent source


def confine(limits: ChildLimits) -> None:
    """Limit this process irrevocably."""
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))  # first SIGXCPU, then SIGKILL
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    max_files = min(_MAX_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    signal.alarm(int(limits.wall_s) + _GRACE_S)  # in case the parent is gone
    threading.stack_size(_STACK_BYTES)
    os.nice(10)  # the work of the parent has priority
