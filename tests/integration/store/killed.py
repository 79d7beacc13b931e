"""A process that fetches and commits a model, to be killed: ROOT SIZES(JSON) RATE FATAL_FSYNC(0: none)."""

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from agent.store.disk import RealDisk
from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from agent.transfer.rate import TokenBucket
from shared.sources.memory import MemorySource


class FatalDisk(RealDisk):
    """Kills the process in place of one of its syncs."""

    def __init__(self, fatal: int) -> None:
        self._left, self._lock = fatal, threading.Lock()

    def fsync(self, descriptor: int) -> None:
        self._count()
        super().fsync(descriptor)

    def sync_all(self, descriptor: int) -> None:
        self._count()
        super().sync_all(descriptor)

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    root, sizes, rate, fatal = Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    source = MemorySource({path: random.Random(path).randbytes(size) for path, size in sizes.items()})
    manifest = source.resolve()
    print("start", flush=True)  # noqa: T201 - the parent waits for it
    store = Store.open(root, disk=FatalDisk(fatal))
    store.sweep()
    result = fetch(
        source, manifest, store, progress=Progress(), stop=threading.Event(), concurrency=2, bucket=TokenBucket(rate)
    )
    store.commit(manifest, "llama", result.sha256)


if __name__ == "__main__":
    main()
