"""Processes that unpack and commit a model, to be killed.

Each line on stdin is an order: SHAPE FATAL_SYNC FATAL_CHANGE ROOT; 0 means never. A process is forked for it, which is
cheaper than starting one; its exit code is printed, -N for signal N.
"""

import os
import random
import signal
import sys
import threading
import traceback
from pathlib import Path

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from shared.sources.memory import MemorySource
from tests.builders.archives import tar, tar_gz
from tests.integration.store.killed import FatalDisk, die_before_change

FILES = {
    "big.safetensors": random.Random(1).randbytes(4 * 2**20 + 1), "config.json": b"{}", "sub/a": b"a", "sub/b": b"a",
}  # fmt: skip


def source(shape: str) -> MemorySource:
    """Return the source of a model of these files: in `one` archive, or in `several` with a file beside them."""
    if shape == "one":
        return MemorySource({"m.tar": tar(FILES)})
    first, second = ({name: FILES[name] for name in names} for names in (("big.safetensors", "sub/a"), ("sub/b",)))
    packed = {"first": tar(first), "second": tar_gz(second)}
    beside = {"config.json": FILES["config.json"]}
    return MemorySource(packed | beside, archives={"first": "tar", "second": "tar.gz"})


_LONGEST_S = 120


def carry_out(shape: str, fatal_sync: int, fatal_change: int, root: Path) -> None:
    """Unpack and commit the model; the process may be killed before the end."""
    archive = source(shape)
    if fatal_change:
        die_before_change(fatal_change)
    store = Store.open(root, disk=FatalDisk(fatal_sync))
    store.recover()
    manifest = archive.resolve()
    result = fetch(archive, DownloadPlan(manifest), store, progress=Progress(), stop=threading.Event())
    store.snapshots.commit(DownloadPlan(manifest), "llama", result.blobs, result.unpacked)


def main() -> None:
    """Carry out orders until there are no more."""
    for line in sys.stdin:
        shape, fatal_sync, fatal_change, root = line.rstrip("\n").split(" ", 3)
        child = os.fork()
        if not child:
            signal.alarm(_LONGEST_S)
            try:
                carry_out(shape, int(fatal_sync), int(fatal_change), Path(root))
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the parent's loop is not the child's
                traceback.print_exc()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the parent waits for it


if __name__ == "__main__":
    main()
