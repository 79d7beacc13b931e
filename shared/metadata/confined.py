"""The inside of a process that reads one model: an order on standard input, a reading on standard output.

It parses what strangers wrote, so it limits itself first, and ends after one.
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

from shared.metadata.termination_message import Reading, encode_reading

OUT_OF_MEMORY = 3
_STACK_BYTES = 2**20  # of each thread; all of it counts as address space
_MOST_FILES = 256
_GRACE_S = 5


class ChildLimits(msgspec.Struct, frozen=True):
    """Bounds of one process: seconds of processor time, bytes of address space, seconds until it is killed."""

    cpu_s: int = 60
    memory_bytes: int = 320 * 2**20
    wall_s: float = 150.0  # a source may take 120 of them


class ChildOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What every order says."""

    limits: ChildLimits = ChildLimits()


T = TypeVar("T", bound=ChildOrder)


def serve_order(kind: type[T], read: Callable[[T], Reading]) -> None:
    """Read the order, write the reading, and end the process.

    The exit code is 0, OUT_OF_MEMORY, 1 for a fault of ours, or a signal's.
    """
    try:
        order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=kind)
        confine(order.limits)
        body = encode_reading(read(order))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # whatever else is under way has no memory either
    except Exception:  # noqa: BLE001 - the parent logs what comes out here
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    os._exit(0)  # a thread that waits for a silent source is not waited for


def confine(limits: ChildLimits) -> None:
    """Bound this process; nothing that it does later undoes that."""
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))  # a signal of its own, then the end
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most_files = min(_MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    signal.alarm(int(limits.wall_s) + _GRACE_S)  # should nobody be there any more to end it
    threading.stack_size(_STACK_BYTES)
    os.nice(10)  # the parent's own work comes first
