"""Processes that fetch, commit and remove a model, to be killed.

The program's argument is a JSON object of file sizes by path; each line on stdin is an Order. The program forks a
process for each order, which is cheaper than starting one, and prints a line when that process ends: its exit code, -N
for signal N, and how many bytes the source has served to all processes.
"""

import json
import mmap
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from shared.sources.memory import MemorySource
from tests.integration.store.broken_disk import BrokenDisk


class FatalDisk(BrokenDisk):
    """Kills the process instead of one of its syncs; `tight` is whether models bypass the page cache."""

    def __init__(self, left: int, *, tight: bool = False) -> None:
        super().__init__(left)
        self.tight = tight

    def fits_page_cache(self, size_bytes: int) -> bool:
        return not self.tight and super().fits_page_cache(size_bytes)

    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class CountedSource(MemorySource):
    """Counts the bytes served to all forked processes; kills a process that has received `fatal_bytes`."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self.fatal_bytes = 0
        self._shared = mmap.mmap(-1, 8)

    @property
    def served_in_all(self) -> int:
        """Return the bytes served to all processes, including killed ones."""
        return int.from_bytes(self._shared[:8], "little")

    def count(self, size_bytes: int) -> None:
        super().count(size_bytes)
        with self._lock:
            self._shared[:8] = (self.served_in_all + size_bytes).to_bytes(8, "little")
        if 0 < self.fatal_bytes <= self.served_bytes:
            os.kill(os.getpid(), signal.SIGKILL)


_LONGEST_S = 120
_PIECE_BYTES = 100_000  # what a fast connection delivers at a time
CHANGES = {"os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.utime", "os.truncate"}


def die_before_change(fatal: int) -> None:
    """Kill the process instead of one of its changes to names, modes and lengths."""
    left, lock = [fatal], threading.Lock()

    def hook(event: str, _: object) -> None:
        if event in CHANGES:
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class Order(msgspec.Struct, kw_only=True):
    """What one process does below a root, and when it is killed; 0 means never.

    It is killed in place of sync number `fatal_sync` or change number `fatal_change` (of a name, mode, time or length),
    after `fatal_bytes` bytes were served to it, in pieces as from a socket, or after `after_s` seconds. With
    `fatal_change`, it first commits a second model, `old`, and removes it at the end.
    """

    root: str
    rate: float = 0
    fatal_sync: int = 0
    fatal_change: int = 0
    fatal_bytes: int = 0
    after_s: float = 0
    tight: bool = False


def carry_out(order: Order, source: CountedSource) -> None:
    """Fetch and commit the model."""
    if order.fatal_bytes:
        source.fatal_bytes, source.faults.max_bytes = order.fatal_bytes, _PIECE_BYTES
    plan = DownloadPlan(source.resolve())
    if order.fatal_change:
        die_before_change(order.fatal_change)
    store = Store.open(Path(order.root), disk=FatalDisk(order.fatal_sync, tight=order.tight))
    store.recover()
    bucket = RateLimiter(order.rate)
    result = fetch(
        source,
        plan,
        store,
        progress=Progress(),
        stop=threading.Event(),
        concurrency=2,
        rate_limiter=bucket,
    )
    if order.fatal_change:
        store.snapshots.commit(plan, "old", result.blobs)
        result = fetch(source, plan, store, progress=Progress(), stop=threading.Event())
    store.snapshots.commit(plan, "llama", result.blobs)
    if order.fatal_change:
        store.snapshots.remove("old", plan.manifest.revision)


def end_of(order: Order, source: CountedSource) -> int:
    """Return the exit code of a process that carries out the order."""
    child = os.fork()
    if not child:
        signal.alarm(_LONGEST_S)
        try:
            carry_out(order, source)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the parent's loop is not the child's
            traceback.print_exc()
            os._exit(1)
    if order.after_s:
        time.sleep(order.after_s)  # the moment is random: there is no condition to wait for
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    source = CountedSource(
        {path: random.Random(path).randbytes(size) for path, size in json.loads(sys.argv[1]).items()}
    )
    for line in sys.stdin:
        code = end_of(msgspec.json.decode(line, type=Order), source)
        print(code, source.served_in_all, flush=True)  # noqa: T201 - the parent waits for it


if __name__ == "__main__":
    main()
