"""A process that unpacks and commits a model, to be killed. SHAPE ROOT FATAL_SYNC FATAL_CHANGE, 0 is none."""

import random
import sys
import threading
from pathlib import Path

from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from shared.sources.memory import MemorySource
from tests.archives import tar, tar_gz
from tests.integration.store.killed import FatalDisk, die_before_change

FILES = {
    "big.safetensors": random.Random(1).randbytes(5_000_000), "config.json": b"{}", "sub/a": b"a", "sub/b": b"a",
}  # fmt: skip


def source(shape: str) -> MemorySource:
    """Return the source of a model of these files: in `one` archive, or in `several` with a file beside them."""
    if shape == "one":
        return MemorySource({"m.tar": tar(FILES)})
    first, second = ({name: FILES[name] for name in names} for names in (("big.safetensors", "sub/a"), ("sub/b",)))
    packed = {"first": tar(first), "second": tar_gz(second)}
    beside = {"config.json": FILES["config.json"]}
    return MemorySource(packed | beside, archives={"first": "tar", "second": "tar.gz"})


def main() -> None:
    """Run until it is killed."""
    root, fatal_sync, fatal_change = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    archive = source(sys.argv[1])
    print("start", flush=True)  # noqa: T201 - the parent waits for it
    if fatal_change:
        die_before_change(fatal_change)
    store = Store.open(root, disk=FatalDisk(fatal_sync))
    store.sweep()
    manifest = archive.resolve()
    result = fetch(archive, manifest, store, progress=Progress(), stop=threading.Event())
    store.commit(manifest, "llama", result.blobs, result.unpacked)


if __name__ == "__main__":
    main()
