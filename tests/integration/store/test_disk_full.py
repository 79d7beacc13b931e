"""A disk that becomes full or read-only during a download; a real file system of 6 MiB."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.errors import InsufficientStorage, StoreFailure, Unreachable
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of


def test_a_download_on_a_full_disk_keeps_its_bytes_and_continues_when_space_is_freed(
    small_disk: Path, fetch_blobs: Callable[..., object]
) -> None:
    source = MemorySource({"large": os.urandom(4 * 2**20)})
    (small_disk / "others").write_bytes(b"x" * (4 * 2**20))
    store = Store.open(small_disk / "root")
    with pytest.raises(InsufficientStorage, match="No space left on device; free space"):
        fetch_blobs(source, store)
    held = source.resolve().size_bytes - store.space.missing_bytes(plan_of(source))
    assert held >= 2**20
    (small_disk / "others").unlink()
    before = source.served_bytes
    fetch_blobs(source, store)
    assert source.served_bytes - before == source.resolve().size_bytes - held
    store.close()


def test_a_store_on_a_full_disk_opens_and_can_make_room(small_disk: Path, fetch_model: Callable[..., Snapshot]) -> None:
    store = Store.open(small_disk / "root")
    snapshot = fetch_model(MemorySource({"large": os.urandom(2 * 2**20)}), store)
    store.close()
    store.layout.holder.unlink()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "others").write_bytes(b"x" * (6 * 2**20))
    store = Store.open(small_disk / "root")
    with pytest.raises(StoreFailure, match="in use by another process"):
        Store.open(small_disk / "root")
    store.recover()
    store.snapshots.remove("llama", snapshot.revision)
    assert store.space.free_bytes() >= 2 * 2**20
    store.close()


def test_a_model_that_cannot_fit_on_the_disk_never_starts(small_disk: Path) -> None:
    store = Store.open(small_disk / "root")
    free = store.space.free_bytes()
    with pytest.raises(InsufficientStorage, match="free space on the node's disk"):
        store.space.reserve("model", free + 1, 0, 0)
    with pytest.raises(InsufficientStorage, match="to keep free 1 bytes"):
        store.space.reserve("model", free, 0, 1)
    store.space.reserve("model", free, 0, 0)
    store.close()


def test_a_download_on_a_read_only_disk_keeps_its_bytes_and_continues_when_it_is_writable(
    small_disk: Path, fetch_blobs: Callable[..., FetchResult], fetch_model: Callable[..., Snapshot]
) -> None:
    store = Store.open(small_disk / "root")
    kept = fetch_model(MemorySource({"config.json": b"{}"}, repo="test/kept"), store, "kept")
    source = MemorySource({"large": os.urandom(2 * 2**20)})
    source.faults.truncate_at["large"] = 2**20
    with pytest.raises(Unreachable):
        fetch_blobs(source, store)
    source.faults.truncate_at.clear()
    _remount(small_disk, "ro")
    try:
        with pytest.raises(StoreFailure, match="Read-only file system; mount it writable"):
            fetch_blobs(source, store)
        with pytest.raises(StoreFailure, match="mount it writable"):
            store.snapshots.remove("kept", kept.revision)
        assert store.snapshots.all() == [kept]
    finally:
        _remount(small_disk, "rw")
    store.snapshots.commit(plan_of(source), "llama", fetch_blobs(source, store).blobs)
    assert source.served_bytes == source.resolve().size_bytes
    assert len(store.snapshots.all()) == 2
    store.close()


def _remount(path: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(path)], check=True)  # noqa: S603, S607 - fixed arguments
