"""A wall clock that jumps by years during a download, in either direction."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.snapshot import MTIME_NS, Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.errors import Unreachable
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
LARGE = "model-00002-of-00002.safetensors"
KEPT_BYTES = 4 * 2**20


def shift(folder: Path, years: int) -> None:
    """Shift the time stamps of unfinished files by years, as a wrong clock would have set them."""
    then_s = time.time() + years * 365 * 86400
    for path in (folder, *folder.rglob("*")):
        if path.stat().st_mtime_ns != MTIME_NS:
            os.utime(path, (then_s, then_s))


@pytest.mark.parametrize("years", [-30, 30])
def test_an_unfinished_file_resumes_from_its_verified_bytes(
    years: int, fetch_blobs: FetchBlobs, source: MemorySource, root: Path
) -> None:
    store = Store.open(root)
    source.faults.truncate_at[LARGE] = KEPT_BYTES
    with pytest.raises(Unreachable):
        fetch_blobs(source, store)
    missing = store.space.missing_bytes(plan_of(source))
    assert missing <= source.resolve().size_bytes - KEPT_BYTES
    store.close()
    shift(root / "partial", years)
    source.faults.truncate_at.clear()
    again, before = Store.open(root), source.served_bytes
    again.recover()
    assert again.space.missing_bytes(plan_of(source)) == missing
    snapshot: Snapshot = again.snapshots.commit(
        plan_of(source), "llama", fetch_blobs(source, again, prove_access=False).blobs
    )
    assert source.served_bytes - before == missing
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == source.files
    assert again.snapshots.check(snapshot) == []
    again.close()
