"""Files of a snapshot that are removed, truncated, replaced or redirected, and their repair."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.store.tree import remove_tree
from agent.transfer.engine import FetchResult
from shared.errors import AuthDenied, StoreFailure
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
LARGE = "model-00001-of-00002.safetensors"
NESTED = "original/params.json"


@pytest.fixture
def snapshot(
    fetch_model: Callable[[MemorySource, Store, str], Snapshot], source: MemorySource, store: Store
) -> Snapshot:
    return fetch_model(source, store, "llama")


def unsealed(path: Path) -> Path:
    """Return the path after making its directory writable, as an administrator or a fault could."""
    path.parent.chmod(0o755)
    return path


def remove(path: Path) -> None:
    unsealed(path).unlink()


def truncate(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, 1)


def overwrite(path: Path) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(b"damaged")


def replace_with_a_copy(path: Path) -> None:
    body = path.read_bytes()
    unsealed(path).unlink()
    path.write_bytes(body)


def replace_with_a_link(path: Path) -> None:
    unsealed(path).unlink()
    path.symlink_to("/etc/passwd")


def replace_with_a_directory(path: Path) -> None:
    unsealed(path).unlink()
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "file").write_text("x")


DAMAGES = [remove, truncate, overwrite, replace_with_a_copy, replace_with_a_link, replace_with_a_directory]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", [LARGE, NESTED])
def test_damage_is_noticed_by_stat_and_only_the_damaged_file_is_repaired(
    damage: Callable[[Path], None],
    path: str,
    snapshot: Snapshot,
    source: MemorySource,
    store: Store,
    fetch_blobs: FetchBlobs,
) -> None:
    damage(snapshot.path / path)
    assert store.snapshots.check(snapshot) == [path]
    assert store.snapshots.all()[0].damaged == (path,)
    before = source.served_bytes
    result = fetch_blobs(source, store, prove_access=False)
    repaired = store.snapshots.repair(snapshot, plan_of(source), result.blobs)
    assert source.served_bytes - before in (0, len(source.files[path]))
    assert store.snapshots.check(repaired) == []
    assert {f.path: (repaired.path / f.path).read_bytes() for f in repaired.files} == source.files
    assert repaired.path.stat().st_mode & 0o777 == 0o555
    assert (repaired.path / "original").stat().st_mode & 0o777 == 0o555
    assert not list(repaired.path.rglob(".new-*"))


def test_a_repair_does_not_change_a_file_that_is_open(
    snapshot: Snapshot, source: MemorySource, store: Store, fetch_blobs: FetchBlobs
) -> None:
    with (snapshot.path / LARGE).open("rb") as opened:
        truncate(snapshot.path / LARGE)
        store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
        assert os.fstat(opened.fileno()).st_size == 1
        assert (snapshot.path / LARGE).stat().st_size == len(source.files[LARGE])


def test_another_snapshot_of_a_damaged_blob_is_repaired_without_transfer(
    snapshot: Snapshot,
    fetch_model: Callable[[MemorySource, Store, str], Snapshot],
    source: MemorySource,
    store: Store,
    fetch_blobs: FetchBlobs,
) -> None:
    twin = fetch_model(source, store, "twin")
    truncate(snapshot.path / LARGE)
    assert store.snapshots.check(snapshot) == store.snapshots.check(twin) == [LARGE]
    store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
    before = source.served_bytes
    store.snapshots.repair(twin, plan_of(source), fetch_blobs(source, store, prove_access=False).blobs)
    assert source.served_bytes == before
    assert store.snapshots.check(snapshot) == store.snapshots.check(twin) == []


def test_a_missing_completion_mark_is_repaired(
    snapshot: Snapshot, source: MemorySource, store: Store, fetch_blobs: FetchBlobs
) -> None:
    remove(snapshot.path / ".completed")
    assert store.snapshots.check(snapshot) == [".completed"]
    assert store.snapshots.all() == []
    repaired = store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
    assert store.snapshots.all() == [repaired]


def test_a_missing_snapshot_directory_is_repaired(
    snapshot: Snapshot, source: MemorySource, store: Store, fetch_blobs: FetchBlobs, root: Path
) -> None:
    remove_tree(root / "models" / "llama")
    assert len(store.snapshots.check(snapshot)) == len(source.files) + 1
    repaired = store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
    assert store.snapshots.check(repaired) == []


def test_a_subdirectory_replaced_by_a_link_is_not_written_through(
    snapshot: Snapshot, source: MemorySource, store: Store, fetch_blobs: FetchBlobs, tmp_path: Path
) -> None:
    aim = tmp_path / "aim"
    aim.mkdir()
    remove_tree(unsealed(snapshot.path / "original"))
    (snapshot.path / "original").symlink_to(aim)
    assert sorted(store.snapshots.check(snapshot)) == ["original/config.json", NESTED]
    repaired = store.snapshots.repair(snapshot, plan_of(source), fetch_blobs(source, store).blobs)
    assert store.snapshots.check(repaired) == []
    assert list(aim.iterdir()) == []


@pytest.mark.parametrize("place", ["model", "revision"])
def test_a_link_with_the_name_of_a_snapshot_directory_is_removed_and_never_followed(
    place: str, source: MemorySource, store: Store, fetch_blobs: FetchBlobs, root: Path, tmp_path: Path
) -> None:
    aim = tmp_path / "aim"
    (aim / "precious").mkdir(parents=True)
    (aim / "precious" / "file").write_text("kept")
    planted = root / "models" / "llama"
    if place == "revision":
        planted.mkdir()
        planted /= source.resolve().revision
    planted.symlink_to(aim)
    store.recover()
    assert store.snapshots.all() == []
    store.snapshots.remove("llama", source.resolve().revision)
    assert not planted.is_symlink()
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(aim)
    snapshot = store.snapshots.commit(plan_of(source), "llama", fetch_blobs(source, store).blobs)
    assert store.snapshots.check(snapshot) == []
    assert not planted.is_symlink()
    assert (aim / "precious" / "file").read_text() == "kept"
    assert sorted(p.name for p in aim.iterdir()) == ["precious"]


def test_a_link_with_the_name_of_a_partial_file_is_not_written_through(
    source: MemorySource, store: Store, fetch_blobs: FetchBlobs, root: Path, tmp_path: Path
) -> None:
    aim = tmp_path / "aim"
    aim.write_text("kept")
    source.faults.on_open = [AuthDenied("not yet")] * 9  # as many as there are files and more: nothing is received
    with pytest.raises(AuthDenied):
        fetch_blobs(source, store)
    source.faults.on_open = []
    for part in (root / "partial").iterdir():
        part.unlink()
        part.symlink_to(aim)
    fetch_blobs(source, store)
    assert aim.read_text() == "kept"


def test_an_empty_directory_made_by_a_runtime_is_replaced_by_the_snapshot(
    source: MemorySource, store: Store, fetch_blobs: FetchBlobs, root: Path
) -> None:
    (root / "models" / "llama" / source.resolve().revision / "sub").mkdir(parents=True)
    assert store.snapshots.all() == []
    snapshot = store.snapshots.commit(plan_of(source), "llama", fetch_blobs(source, store).blobs)
    assert store.snapshots.all() == [snapshot]
    assert [p.name for p in snapshot.path.parent.iterdir()] == [snapshot.revision]


def test_a_foreign_directory_is_never_touched(
    source: MemorySource, store: Store, fetch_blobs: FetchBlobs, root: Path
) -> None:
    theirs = root / "models" / "llama" / source.resolve().revision
    theirs.mkdir(parents=True)
    (theirs / "thesis.txt").write_text("kept")
    result = fetch_blobs(source, store)
    with pytest.raises(StoreFailure, match=r"not made by Larder.*move it away"):
        store.snapshots.commit(plan_of(source), "llama", result.blobs)
    store.snapshots.remove("llama", source.resolve().revision)
    store.recover()
    assert (theirs / "thesis.txt").read_text() == "kept"
    assert [p.name for p in theirs.parent.iterdir()] == [theirs.name]


def test_a_directory_with_a_copied_or_damaged_mark_is_not_a_snapshot(snapshot: Snapshot, store: Store) -> None:
    copy = snapshot.path.with_name("0" * 40)
    shutil.copytree(snapshot.path, copy)
    assert store.snapshots.all() == [snapshot]
    mark = unsealed(snapshot.path / ".completed")
    mark.chmod(0o644)
    mark.write_text('{"id": "llama"')
    assert store.snapshots.all() == []
