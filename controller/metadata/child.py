"""The child process that reads one model: `python -m controller.metadata.child`, an order in, a reading out.

It parses what strangers wrote, so it limits itself first, and ends after one. It has no other
environment and no other secret than the order's.
"""

import os
import resource
import signal
import sys
import threading
import time
import traceback

import msgspec

from controller.metadata.order import Limits, Order
from controller.metadata.remote import Allowance, failed, read_remote
from shared.errors import LarderError, SourceChanged
from shared.handover import Reading, encode_reading
from shared.manifest import decode_manifest
from shared.sources.registry import open_source
from shared.uri import parse_uri

OUT_OF_MEMORY = 3
_STACK_BYTES = 2**20  # of each thread; all of it counts as address space
_MOST_FILES = 256
_GRACE_S = 5


def main() -> None:
    """Read the order and write the reading. The exit code is 0, OUT_OF_MEMORY, 1 for a fault of ours, or a signal's."""
    try:
        order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Order)
        confine(order.limits)
        body = encode_reading(_read(order))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # whatever else is under way has no memory either
    except Exception:  # noqa: BLE001 - the controller logs what comes out here
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    os._exit(0)  # a thread that waits for a silent source is not waited for


def confine(limits: Limits) -> None:
    """Bound this process; nothing that it does later undoes that."""
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))  # a signal of its own, then the end
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most_files = min(_MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    signal.alarm(int(limits.wall_s) + _GRACE_S)  # should nobody be there any more to end it
    threading.stack_size(_STACK_BYTES)
    os.nice(10)  # the controller's own work comes first


def _read(order: Order) -> Reading:
    try:
        manifest = decode_manifest(order.manifest, order.digest)
        if manifest.revision != order.revision:
            raise SourceChanged(f"the list of files {order.digest} is of another revision; ask for a refresh")
        source = open_source(parse_uri(manifest.uri), order.credentials, order.settings)
        return read_remote(source, manifest, order.left_out, Allowance(time.monotonic))
    except LarderError as error:
        return failed(error.reason, str(error))


if __name__ == "__main__":
    main()
