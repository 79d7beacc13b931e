"""A process that fetches, commits and removes models, to be killed.

ROOT SIZES(JSON) RATE FATAL_SYNC FATAL_CHANGE: of the last two, 0 is none; with a fatal change it also removes `old`,
a model that it has committed first.
"""

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from agent.transfer.rate import TokenBucket
from shared.sources.memory import MemorySource
from tests.integration.store.broken_disk import BrokenDisk


class FatalDisk(BrokenDisk):
    """Kills the process in place of one of its syncs."""

    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


CHANGES = {"os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.utime", "os.truncate"}


def die_before_change(fatal: int) -> None:
    """Kill the process in place of one of its changes to names, modes and lengths."""
    left, lock = [fatal], threading.Lock()

    def hook(event: str, _: object) -> None:
        if event in CHANGES:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main() -> None:
    root, sizes, rate = Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
    fatal, fatal_change = int(sys.argv[4]), int(sys.argv[5])
    source = MemorySource({path: random.Random(path).randbytes(size) for path, size in sizes.items()})
    manifest = source.resolve()
    print("start", flush=True)  # noqa: T201 - the parent waits for it
    if fatal_change:
        die_before_change(fatal_change)
    store = Store.open(root, disk=FatalDisk(fatal))
    store.sweep()
    result = fetch(
        source, manifest, store, progress=Progress(), stop=threading.Event(), concurrency=2, bucket=TokenBucket(rate)
    )
    if fatal_change:
        store.commit(manifest, "old", result.sha256)
        result = fetch(source, manifest, store, progress=Progress(), stop=threading.Event())
    store.commit(manifest, "llama", result.sha256)
    if fatal_change:
        store.set_aside_and_remove("old", manifest.revision)


if __name__ == "__main__":
    main()
