"""Helpers for the tests of archives."""

import threading
from collections.abc import Callable
from pathlib import Path

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.sources.memory import MemorySource

FetchBlobs = Callable[..., FetchResult]
SOON_S = 60.0


def content(snapshot: Snapshot) -> dict[str, bytes]:
    found = {p.relative_to(snapshot.path).as_posix(): p.read_bytes() for p in snapshot.path.rglob("*") if p.is_file()}
    del found[".completed"]
    return found


def fetch_two_at_a_time(fetch_model: Callable[..., Snapshot], source: MemorySource, store: Store) -> list[Snapshot]:
    """Fetch the same source under two ids in two concurrent threads."""
    barrier = threading.Barrier(2)
    snapshots: list[Snapshot] = []

    def run(identity: str) -> None:
        barrier.wait(SOON_S)
        snapshots.append(fetch_model(source, store, identity))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return snapshots


def assert_nothing_but(root: Path, snapshot: Snapshot) -> None:
    """Assert that the store holds this snapshot, its blobs, and nothing else."""
    assert {p.name for p in (root / "blobs" / "sha256").iterdir()} == {f.sha256 for f in snapshot.files}
    assert list((root / "partial").iterdir()) == []
