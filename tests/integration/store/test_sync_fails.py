"""A disk on which each sync fails once: no unsynced file is treated as stored, and a retry succeeds."""

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.errors import StoreFailure
from shared.sources.memory import MemorySource
from tests.builders.archives import tar
from tests.integration.store.broken_disk import BrokenDisk


class FailingDisk(BrokenDisk):
    """Fails instead of one of its syncs; the unsynced data is lost, as after a crash."""

    def fail(self) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("packed", [False, True], ids=["files", "archive"])
def test_a_failed_sync_at_any_step_leaves_a_consistent_store_and_a_retry_succeeds(
    packed: bool,  # noqa: FBT001 - a parameter of the test
    fetch_blobs: Callable[..., FetchResult],
    root: Path,
) -> None:
    files = {"large": os.urandom(5_000_000), "sub/small": b"small", "sub/other": b"other"}
    source = MemorySource({"m.tar": tar(files)} if packed else files)
    manifest, failures, ended = source.resolve(), 0, False
    while not ended:
        disk = FailingDisk()
        store = Store.open(root / str(failures), disk=disk)
        disk.left = failures + 1

        def fetch_model(store: Store = store) -> Snapshot:
            result = fetch_blobs(source, store)
            return store.snapshots.commit(DownloadPlan(manifest), "llama", result.blobs, result.unpacked)

        try:
            fetch_model()
            ended = True
        except StoreFailure:
            failures += 1
            for path in (store.root / "blobs" / "sha256").iterdir():
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        snapshot = fetch_model()
        assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == files
        assert store.snapshots.all() == [snapshot]
        assert not list(store.root.glob("models/llama/.*"))  # a leftover would keep removed bytes
        assert list((store.root / "partial").iterdir()) == []
        assert set(store.blobs.paths()) == {f.sha256 for f in snapshot.files}
        store.close()
    assert failures >= 7
