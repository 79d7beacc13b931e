"""A repository of 10,000 files."""

from collections.abc import Callable

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.store.tree import remove_tree
from agent.transfer.engine import FetchResult
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

COUNT = 10_000


def test_ten_thousand_files_are_fetched_kept_repaired_and_removed(
    fetch_model: Callable[[MemorySource, Store, str], Snapshot], fetch_blobs: Callable[..., FetchResult], store: Store
) -> None:
    source = MemorySource({f"dir-{n % 100:02}/{n:05}.json": b"%d" % n for n in range(COUNT)})
    snapshot = fetch_model(source, store, "llama")
    assert len(snapshot.files) == COUNT
    assert store.snapshots.all() == [snapshot]
    gone = "dir-07/00007.json"
    remove_tree_of(snapshot, gone)
    assert store.snapshots.check(snapshot) == [gone]
    repaired = store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store, prove_access=False).blobs)
    assert store.snapshots.check(repaired) == []
    store.snapshots.remove("llama", snapshot.revision)
    assert store.blobs.paths() == {}


def remove_tree_of(snapshot: Snapshot, path: str) -> None:
    (snapshot.path / path).parent.chmod(0o755)
    remove_tree(snapshot.path / path)
