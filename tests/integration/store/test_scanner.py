"""The agent's state cache follows a real disk, with and without inotify."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from agent.linux.inotify import InotifyWatch
from agent.reconciler.activity import Activity
from agent.reconciler.scanner import Scanner
from agent.reconciler.state_cache import StateCache
from agent.store.floor import Floor, StoreVolume
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.store.tree import remove_tree
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

LARGE = "model-00001-of-00002.safetensors"
NEVER_S, OFTEN_S, SOON_S = 86400.0, 0.05, 60.0
FetchModel = Callable[[MemorySource, Store, str], Snapshot]


@asynccontextmanager
async def scanning(
    store: Store, watch: InotifyWatch | None, interval_s: float
) -> AsyncIterator[tuple[StateCache, asyncio.Event]]:
    """Yield the cache and an event that is set after each scan."""
    cache, looked = StateCache(), asyncio.Event()
    with ThreadPoolExecutor(1) as threads:
        scanner = Scanner(cache, store, StoreVolume(store.root, floor=Floor(7)), Activity(), threads, interval_s, watch)
        await scanner.read()
        task = asyncio.create_task(scanner.run(looked.set))
        try:
            yield cache, looked
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if watch:
                watch.close()


async def until(condition: Callable[[], bool], looked: asyncio.Event) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            looked.clear()
            await looked.wait()


@pytest.mark.parametrize("reported", [True, False])
async def test_damage_and_removal_reach_the_cache(
    *, reported: bool, fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    watch = InotifyWatch.open() if reported else None
    async with scanning(store, watch, NEVER_S if reported else OFTEN_S) as (cache, looked):
        assert cache.held["llama", snapshot.revision].damaged == ()
        assert cache.space.floor == 7
        assert cache.space.used > snapshot.size
        (snapshot.path / LARGE).chmod(0o644)
        (snapshot.path / LARGE).write_bytes(b"short")
        await until(lambda: cache.held["llama", snapshot.revision].damaged == (LARGE,), looked)
        remove_tree(snapshot.path)
        # a scan that runs meanwhile may miss only the mark: the other files still hold their blobs
        await until(lambda: cache.held == {} and cache.space.used < 2**20, looked)
        assert list(store.layout.blobs.iterdir()) == []


async def test_blobs_of_a_manually_deleted_snapshot_are_removed_unless_still_needed(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    gone = fetch_model(source, store, "llama")
    other = MemorySource({"config.json": source.files["config.json"], "b.bin": b"b" * 5000}, repo="org/other")
    kept = fetch_model(other, store, "qwen")
    pinned = MemorySource({"c.bin": b"c" * 5000}, repo="org/pinned")
    fetch(pinned, plan_of(pinned), store, progress=Progress(), stop=threading.Event())  # not committed yet
    damaged = fetch_model(MemorySource({"d.bin": b"d" * 5000}, repo="org/damaged"), store, "damaged")
    damaged.path.chmod(0o755)
    (damaged.path / "d.bin").unlink()
    async with scanning(store, InotifyWatch.open(), NEVER_S) as (cache, looked):
        remove_tree(gone.path)
        await until(lambda: ("llama", gone.revision) not in cache.held, looked)
        names = {path.name for path in store.layout.blobs.iterdir()}
        bodies = (source.files["config.json"], b"b" * 5000, b"c" * 5000, b"d" * 5000)
        assert names == {hashlib.sha256(body).hexdigest() for body in bodies}
        assert store.snapshots.check(kept) == []


async def test_a_newly_committed_model_is_watched_for_damage(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    async with scanning(store, InotifyWatch.open(), NEVER_S) as (cache, looked):
        snapshot = await asyncio.to_thread(fetch_model, source, store, "llama")
        await until(lambda: ("llama", snapshot.revision) in cache.held, looked)
        (snapshot.path / "original").chmod(0o755)
        (snapshot.path / "original" / "params.json").unlink()
        await until(lambda: cache.held["llama", snapshot.revision].damaged == ("original/params.json",), looked)


@pytest.mark.parametrize("reported", [True, False])
async def test_a_store_that_was_emptied_by_hand_has_no_snapshots_and_takes_new_ones(
    *, reported: bool, fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    watch = InotifyWatch.open() if reported else None
    async with scanning(store, watch, NEVER_S if reported else OFTEN_S) as (cache, looked):
        for path in list(store.root.iterdir()):
            remove_tree(path)
        await until(lambda: cache.held == {}, looked)
        await asyncio.to_thread(fetch_model, source, store, "llama")
        await until(lambda: ("llama", snapshot.revision) in cache.held, looked)
