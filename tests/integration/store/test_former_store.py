"""A store written by the first version is used unchanged.

`data/former-store.tar.gz` was written by that version's own store and engine, before modules and names changed. It
holds a model of four files, two of which share a blob; a model that was one archive; and 3 MiB of a 5 MiB download.
"""

import tarfile
from pathlib import Path

import pytest

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from shared.sources.memory import MemoryRepository, MemorySource
from tests.builders.archives import tar
from tests.builders.stores import Fetch, plan_of

FORMER = Path(__file__).parent / "data" / "former-store.tar.gz"
PLAIN = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 20,
    "original/config.json": b'{"model_type": "llama"}',
    "empty.txt": b"",
}
PACKED = {"m.tar": tar({"m/config.json": b"{}", "m/w.safetensors": b"w" * 5000})}
BEGUN = {"big.bin": b"0123456789abcdef" * (5 * 2**16)}


def plain() -> MemorySource:
    return MemoryRepository(PLAIN, repo="org/plain")


def packed() -> MemorySource:
    return MemoryRepository(PACKED, repo="org/packed")


@pytest.fixture
def former(root: Path) -> Path:
    root.mkdir()
    with tarfile.open(FORMER) as archive:
        archive.extractall(root, filter="fully_trusted")  # noqa: S202 - ours, with its modes and hard links
    return root


def places(root: Path) -> dict[Path, tuple[int, int]]:
    kept = (path for part in ("blobs", "models") for path in (root / part).rglob("*"))
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in kept}


@pytest.mark.parametrize(("identity", "source"), [("plain", plain()), ("packed", packed())])
def test_a_complete_snapshot_is_adopted_without_moving_a_byte(
    identity: str, source: MemorySource, former: Path, fetch_blobs: Fetch
) -> None:
    before = places(former)
    store = Store.open(former)
    store.recover()
    found = {snapshot.id: snapshot for snapshot in store.snapshots.all()}
    assert set(found) == {"plain", "packed"}
    assert store.snapshots.check(found[identity]) == []
    manifest = source.resolve()
    assert found[identity].revision == manifest.revision
    assert store.space.missing_bytes(DownloadPlan(manifest)) == 0
    result = fetch_blobs(source, store, prove_access=False)
    assert store.snapshots.commit(DownloadPlan(manifest), identity, result.blobs, result.unpacked) == found[identity]
    assert source.served_bytes == 0
    assert places(former) == before
    store.close()


def test_a_download_that_was_cut_short_resumes_from_its_bytes(former: Path, fetch_blobs: Fetch) -> None:
    store = Store.open(former)
    store.recover()
    source = MemoryRepository(BEGUN, repo="org/begun")
    assert store.space.missing_bytes(plan_of(source)) == 2 * 2**20
    snapshot = store.snapshots.commit(plan_of(source), "begun", fetch_blobs(source, store).blobs)
    assert source.served_bytes == 2 * 2**20
    assert (snapshot.path / "big.bin").read_bytes() == BEGUN["big.bin"]
    store.close()


def test_removing_a_snapshot_removes_its_blobs(former: Path) -> None:
    store = Store.open(former)
    store.recover()
    for snapshot in store.snapshots.all():
        store.snapshots.remove(snapshot.id, snapshot.revision)
    assert store.snapshots.all() == []
    assert list((former / "blobs" / "sha256").iterdir()) == []
    store.close()
