"""Two models that share files: changes to one never remove files that the other needs."""

import threading
from collections.abc import Callable
from pathlib import Path

from agent.store.download_plan import DownloadPlan
from agent.store.incoming import Incoming
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
FetchModel = Callable[..., Snapshot]
ONE = MemorySource({"weights": b"0123456789" * 100_000, "one": b"1"})
TWO = MemorySource({**ONE.files, "two": b"2"})


def assert_kept(store: Store, result: FetchResult) -> None:
    """Assert that the second model is stored, can be committed, and leaves nothing behind when removed."""
    assert store.space.missing_bytes(plan_of(TWO)) == 0
    snapshot = store.snapshots.commit(plan_of(TWO), "two", result.blobs)
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == TWO.files
    assert list((store.root / "partial").iterdir()) == []
    store.snapshots.remove("two", snapshot.revision)
    assert store.blobs.paths() == {}


def test_files_are_kept_when_a_model_that_shares_them_is_removed_before_the_commit(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, store: Store
) -> None:
    result = fetch_blobs(TWO, store)
    store.snapshots.remove("one", fetch_model(ONE, store, "one").revision)
    assert_kept(store, result)


def test_files_are_kept_when_a_download_that_shares_them_is_cancelled(fetch_blobs: FetchBlobs, store: Store) -> None:
    result = fetch_blobs(TWO, store)
    fetch_blobs(ONE, store)
    store.unfinished.discard(plan_of(ONE))
    assert_kept(store, result)


def test_files_that_only_an_unwanted_download_needs_are_dropped(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, store: Store
) -> None:
    fetch_blobs(TWO, store)
    store.unfinished.drop_unreferenced([plan_of(ONE)])
    fetch_model(ONE, store, "one")
    assert list((store.root / "partial").iterdir()) == []


class Overtaken(Incoming):
    """A store in which another download stores the missing files right after this one has checked."""

    another: Callable[[], object] | None = None

    def pin(self, plan: DownloadPlan) -> dict[str, str]:
        found, another = super().pin(plan), self.another
        self.another = None
        if another:
            another()
        return found


def test_files_sealed_by_another_download_at_the_last_moment_are_reused(fetch_blobs: FetchBlobs, root: Path) -> None:
    store = Store.open(root)
    store.incoming = overtaken = Overtaken(store._state)
    overtaken.another = lambda: fetch_blobs(ONE, store)
    before = ONE.served_bytes
    result = fetch_blobs(TWO, store)
    assert ONE.served_bytes - before == ONE.resolve().size_bytes
    store.unfinished.discard(plan_of(ONE))
    assert_kept(store, result)
    store.close()


def test_two_downloads_that_each_need_the_others_sealed_file_both_finish(fetch_blobs: FetchBlobs, store: Store) -> None:
    x, y = b"x" * 100, b"y" * 100  # of one size, so that files come in the order of their names
    one = MemorySource({"1": x, "2": b"p" * 100, "3": b"q" * 100, "4": y})
    two = MemorySource({"1": y, "2": b"r" * 100, "3": b"s" * 100, "4": x})
    all_begun = threading.Barrier(6)  # the three threads that each download begins with

    def hold_the_first_three(path: str, position: int) -> None:
        if path != "4" and position == 0:
            all_begun.wait(timeout=60)

    for source in (one, two):
        source.faults.before_read = hold_the_first_three
    stop, results = threading.Event(), dict[str, FetchResult]()

    def run(name: str, source: MemorySource) -> None:
        results[name] = fetch_blobs(source, store, stop=stop)

    threads = [threading.Thread(target=run, args=pair) for pair in (("one", one), ("two", two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    stop.set()
    assert results.keys() == {"one", "two"}
    for name, source in (("one", one), ("two", two)):
        snapshot = store.snapshots.commit(plan_of(source), name, results[name].blobs)
        assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == source.files
